/* As much of CUDA's driver as is asked before anything else: it is there, and shows two GPUs. */
int cuInit(unsigned flags);
int cuDeviceGetCount(int *out_count);

__attribute__((visibility("default"))) int cuInit(unsigned flags) {
  return flags == 0 ? 0 : 1;
}

__attribute__((visibility("default"))) int cuDeviceGetCount(int *out_count) {
  *out_count = 2;
  return 0;
}
