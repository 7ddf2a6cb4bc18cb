/* The least rate that links and memory may be said to have, in the units in which they are told: at
 * less than a byte a second a copy takes for ever, and its nanoseconds are too many to be counted.
 */
#ifndef TANDEM_DEVICES_LEAST_RATE_H
#define TANDEM_DEVICES_LEAST_RATE_H

#define TDM_LEAST_BYTES_PER_SECOND 1.0
#define TDM_LEAST_BYTES_PER_NS (TDM_LEAST_BYTES_PER_SECOND / 1e9) /* gigabytes a second as well */

#endif
