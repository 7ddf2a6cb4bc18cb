/* swish(x) = x sigmoid(beta x), an operation that the library does not have (Ramachandran, Zoph,
 * Le: "Searching for activation functions", 2017), made with only tandem.h. */
#ifndef EXAMPLES_CUSTOM_OPERATION_SWISH_H
#define EXAMPLES_CUSTOM_OPERATION_SWISH_H

#include <tandem/tandem.h>

/* Adds its kernels to the context; once, before the first session. */
tdm_status swish_register(tdm_context *context);
/* x float32 (...) -> the same shape. */
tdm_value swish(tdm_graph *graph, const char *name, tdm_value x, double beta);

#endif
