/* The names of the library's operations and their attribute structs, shared by layers and backends.
 * Operands are written as name (shape), inputs -> outputs; "=" marks an output that overwrites an
 * input in place; [x] is optional. F is float32 or float64, the same for all F operands of a node;
 * ids are int32 or int64. Formulas and conventions are PyTorch's.
 *
 * Every attribute struct is plain data without significant padding. Zero it before filling, because
 * it is compared and hashed by its bytes. */
#ifndef TANDEM_DEVICES_KERNELS_H
#define TANDEM_DEVICES_KERNELS_H

#include "devices/kernels/attention/attention.h"
#include "devices/kernels/convolution/images.h"
#include "devices/kernels/elementwise/dropout.h"
#include "devices/kernels/elementwise/pointwise.h"
#include "devices/kernels/losses/losses.h"
#include "devices/kernels/moves/moves.h"
#include "devices/kernels/moves/shape.h"
#include "devices/kernels/moves/sort.h"
#include "devices/kernels/normalization/normalization.h"
#include "devices/kernels/normalization/softmax.h"
#include "devices/kernels/products/products.h"
#include "devices/kernels/recurrent/recurrent.h"
#include "devices/kernels/reductions/deviations.h"
#include "devices/kernels/reductions/reductions.h"
#include "devices/kernels/tables/lookup.h"
#include "devices/kernels/updates/optimizers.h"

#endif
