/* The part of support.c for tests of GPUs, emulated or real: twins of its kernels. */
#include "tests/devices/support_cuda.h"

#include "tests/devices/support.h"

static tdm_status execute_failing(const tdm_kernel_call *call) {
  (void)call;
  return tdm_fail(TDM_INVALID_ARGUMENT, "the kernel that fails");
}

static const tdm_kernel mix = {.struct_size = sizeof(tdm_kernel),
                               .operation = "test_mix",
                               .executes = "cuda",
                               .dtype = TDM_INT64,
                               .execute = test_cuda_mix};
static const tdm_kernel failing = {.struct_size = sizeof(tdm_kernel),
                                   .operation = "test_failing",
                                   .executes = "cuda",
                                   .dtype = TDM_INT64,
                                   .execute = execute_failing};
static const tdm_kernel slow = {.struct_size = sizeof(tdm_kernel),
                                .operation = "test_slow",
                                .executes = "cuda",
                                .dtype = TDM_INT64,
                                .execute = test_cuda_slow};

const tdm_kernel *const test_twins[] = {&mix, &failing, &slow, NULL};
