/* The minimum rate that may be specified for links and memory, in the units of the settings. At
 * less than a byte per second, the nanoseconds of a copy would overflow. */
#ifndef TANDEM_DEVICES_LEAST_RATE_H
#define TANDEM_DEVICES_LEAST_RATE_H

#define TDM_LEAST_BYTES_PER_SECOND 1.0
#define TDM_LEAST_BYTES_PER_NS (TDM_LEAST_BYTES_PER_SECOND / 1e9) /* gigabytes a second */

#endif
