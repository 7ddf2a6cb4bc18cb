/* The names of the library's operations and their attribute structs, shared by layers and backends.
 * Operands are written as name (shape), inputs -> outputs; "=" marks an output that overwrites an
 * input in place; [x] is optional. F is float32 or float64, the same for all F operands of a node;
 * ids are int32 or int64. Formulas and conventions are PyTorch's.
 *
 * Every attribute struct is plain data without significant padding. Zero it before filling, because
 * it is compared and hashed by its bytes. */
#ifndef TANDEM_DEVICES_KERNELS_H
#define TANDEM_DEVICES_KERNELS_H

#include "devices/operations/attention.h"
#include "devices/operations/deviations.h"
#include "devices/operations/dropout.h"
#include "devices/operations/images.h"
#include "devices/operations/lookup.h"
#include "devices/operations/losses.h"
#include "devices/operations/moves.h"
#include "devices/operations/normalization.h"
#include "devices/operations/optimizers.h"
#include "devices/operations/pointwise.h"
#include "devices/operations/products.h"
#include "devices/operations/recurrent.h"
#include "devices/operations/reductions.h"
#include "devices/operations/shape.h"
#include "devices/operations/softmax.h"
#include "devices/operations/sort.h"

#endif
