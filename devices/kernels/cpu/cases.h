/* Cases of a switch by a size that is small: X has each, for which it then is a constant. */
#ifndef TANDEM_DEVICES_KERNELS_CPU_CASES_H
#define TANDEM_DEVICES_KERNELS_CPU_CASES_H

#define CASES_TO_12(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define CASES_TO_14(X) CASES_TO_12(X) X(13) X(14)

#endif
