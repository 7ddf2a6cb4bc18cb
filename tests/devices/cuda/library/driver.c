/* The part of CUDA's driver that is called first: it is present, and shows two GPUs, unless it
 * initialises with the code in DRIVER_CODE. */
#include <stdlib.h>

int cuInit(unsigned flags);
int cuDeviceGetCount(int *out_count);
int cuGetErrorString(int code, const char **out_text);

__attribute__((visibility("default"))) int cuInit(unsigned flags) {
  const char *code = getenv("DRIVER_CODE");
  return flags != 0 ? 1 : code ? atoi(code) : 0;
}

__attribute__((visibility("default"))) int cuGetErrorString(int code, const char **out_text) {
  *out_text = code == 802 ? "system not yet initialized" : NULL;
  return code == 802 ? 0 : 1;
}

__attribute__((visibility("default"))) int cuDeviceGetCount(int *out_count) {
  *out_count = 2;
  return 0;
}
