/* Tests of devices that execute the cpu's kernels need no twins. */
#include "tests/devices/support.h"

const tdm_kernel *const test_twins[] = {NULL};
