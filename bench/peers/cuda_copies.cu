/* The plain loop: warm-ups and timed copies are enqueued after a kernel that waits for the host, so
 * launching does not count. Events enclose the timed copies. Invariant: every resource is released
 * in reverse order, on failure too. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/cuda_copies.h"

/* Clock cycles after which the kernel stops waiting if kernel and host cannot run concurrently, as
 * under some checkers. */
static const long long LONGEST_HOLD_CLOCKS = 4000000000ll;

__global__ void hold_back(volatile int *released) {
  const long long begin = clock64();
  while (*released == 0 && clock64() - begin < LONGEST_HOLD_CLOCKS) {
  }
}

struct loop {
  const cuda_copies *wanted;
  void *host[2]; /* buffers of the measured and of the opposite direction */
  void *device[2];
  cudaStream_t streams[2];
  cudaEvent_t begin, end;
  int *released; /* pinned, mapped */
  cudaError_t error;
};

static bool good(loop *self, cudaError_t error) {
  if (self->error == cudaSuccess) self->error = error;
  return self->error == cudaSuccess;
}

static void take_host(loop *self, int index) {
  const size_t bytes = self->wanted->bytes;
  if (self->wanted->memory == CUDA_COPIES_PINNED) {
    good(self, cudaMallocHost(&self->host[index], bytes));
    return;
  }
  const size_t page = 4096;
  self->host[index] = aligned_alloc(page, (bytes + page - 1) / page * page);
  if (!self->host[index]) {
    good(self, cudaErrorMemoryAllocation);
    return;
  }
  memset(self->host[index], index + 1, bytes);
  if (self->wanted->memory == CUDA_COPIES_REGISTERED)
    good(self, cudaHostRegister(self->host[index], bytes, cudaHostRegisterDefault));
}

static void give_host(loop *self, int index) {
  if (!self->host[index]) return;
  if (self->wanted->memory == CUDA_COPIES_PINNED) {
    (void)cudaFreeHost(self->host[index]);
    return;
  }
  if (self->wanted->memory == CUDA_COPIES_REGISTERED) (void)cudaHostUnregister(self->host[index]);
  free(self->host[index]);
}

static bool is_upload(const loop *self, int index) {
  const bool upload = self->wanted->direction == CUDA_COPIES_UPLOAD ||
                      self->wanted->direction == CUDA_COPIES_UPLOAD_BUSY;
  return index == 0 ? upload : !upload;
}

static bool is_busy(const loop *self) {
  return self->wanted->direction == CUDA_COPIES_UPLOAD_BUSY ||
         self->wanted->direction == CUDA_COPIES_DOWNLOAD_BUSY;
}

static bool begin_loop(loop *self) {
  good(self, cudaSetDevice(self->wanted->device));
  for (int i = 0; i < 2 && self->error == cudaSuccess; i++) {
    take_host(self, i);
    if (self->error == cudaSuccess) memset(self->host[i], i + 1, self->wanted->bytes);
    good(self, cudaMalloc(&self->device[i], self->wanted->bytes));
    if (self->error == cudaSuccess)
      good(self, cudaMemset(self->device[i], i + 3, self->wanted->bytes));
    good(self, cudaStreamCreateWithFlags(&self->streams[i], cudaStreamNonBlocking));
  }
  good(self, cudaEventCreate(&self->begin));
  good(self, cudaEventCreate(&self->end));
  good(self, cudaMallocHost((void **)&self->released, sizeof *self->released));
  return good(self, cudaDeviceSynchronize());
}

static void end_loop(loop *self) {
  (void)cudaFreeHost(self->released);
  if (self->end) (void)cudaEventDestroy(self->end);
  if (self->begin) (void)cudaEventDestroy(self->begin);
  for (int i = 1; i >= 0; i--) {
    if (self->streams[i]) (void)cudaStreamDestroy(self->streams[i]);
    (void)cudaFree(self->device[i]);
    give_host(self, i);
  }
}

static void enqueue(loop *self, int index) {
  void *to = is_upload(self, index) ? self->device[index] : self->host[index];
  const void *from = is_upload(self, index) ? self->host[index] : self->device[index];
  good(self,
       cudaMemcpyAsync(to, from, self->wanted->bytes, cudaMemcpyDefault, self->streams[index]));
}

/* A copy from pageable memory holds up the host: nothing may be held back before it. */
static bool can_hold(const loop *self) {
  return self->wanted->memory != CUDA_COPIES_PAGEABLE;
}

static void measure_sample(loop *self, double *out_ns) {
  const cuda_copies *wanted = self->wanted;
  volatile int *released = self->released;
  *released = can_hold(self) ? 0 : 1;
  for (int i = 0; i < (is_busy(self) ? 2 : 1) && can_hold(self); i++)
    hold_back<<<1, 1, 0, self->streams[i]>>>(self->released);
  for (int i = 0; i < wanted->warm_ups + wanted->timed; i++) {
    if (i == wanted->warm_ups) good(self, cudaEventRecord(self->begin, self->streams[0]));
    enqueue(self, 0);
    for (int k = 0; k < 2 && is_busy(self); k++)
      enqueue(self, 1);
  }
  good(self, cudaEventRecord(self->end, self->streams[0]));
  *released = 1;
  good(self, cudaDeviceSynchronize());
  float milliseconds = 0;
  if (self->error == cudaSuccess)
    good(self, cudaEventElapsedTime(&milliseconds, self->begin, self->end));
  *out_ns = (double)milliseconds * 1e6;
}

/* Returns true if the destination has the contents of the source. */
static bool is_right(loop *self) {
  const size_t bytes = self->wanted->bytes;
  const unsigned char expected = is_upload(self, 0) ? 1 : 3;
  unsigned char *seen = (unsigned char *)malloc(bytes);
  if (!seen) return false;
  const void *where = is_upload(self, 0) ? self->device[0] : self->host[0];
  bool right = good(self, cudaMemcpy(seen, where, bytes, cudaMemcpyDefault));
  for (size_t i = 0; i < bytes && right; i++)
    right = seen[i] == expected;
  free(seen);
  return right;
}

int cuda_copies_device_count(void) {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void cuda_copies_device_name(int device, char *out_name, size_t capacity) {
  if (capacity == 0) return;
  out_name[0] = '\0';
  cudaDeviceProp properties;
  if (device >= cuda_copies_device_count()) return;
  if (cudaGetDeviceProperties(&properties, device) == cudaSuccess)
    (void)snprintf(out_name, capacity, "%s", properties.name);
}

bool cuda_copies_measure(const cuda_copies *wanted, double *out_ns, char *out_problem,
                         size_t capacity) {
  loop self = {};
  self.wanted = wanted;
  bool right = begin_loop(&self);
  for (int i = 0; i < wanted->samples && self.error == cudaSuccess; i++)
    measure_sample(&self, &out_ns[i]);
  if (right && self.error == cudaSuccess) right = is_right(&self);
  if (self.error != cudaSuccess) {
    (void)snprintf(out_problem, capacity, "%s", cudaGetErrorString(self.error));
    (void)cudaGetLastError();
  } else if (!right) {
    (void)snprintf(out_problem, capacity, "other contents than were copied");
  }
  end_loop(&self);
  return right && self.error == cudaSuccess;
}
