/* Public part of devices/: properties of devices, such as their memory, and the cost of copies
 * between them. */
#ifndef TANDEM_DEVICES_PROPERTIES_H
#define TANDEM_DEVICES_PROPERTIES_H

#include "tandem/devices/devices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Properties of a device.
 * @code
 * tdm_device_properties properties = {sizeof properties};
 * tdm_status status = tdm_device_get_properties(context, "cuda:0", &properties);
 * @endcode
 */
typedef struct tdm_device_properties {
  size_t struct_size; /* sizeof(tdm_device_properties), set by the caller. */
  const char *kind;   /* "cpu", "sim", "cuda" or "paper"; static storage. */
  /* The processor of a device on the host, or name, bus address and driver of a GPU. "" if only the
   * kind is known. */
  char model[128];
  int rank;  /* Rank of the job that the device belongs to; 0 if there is no job. */
  int index; /* Index within its rank and kind. */
  /* The operating system's number of the nearest NUMA node. -1: several are equally near, or it is
   * unknown. */
  int numa_node;
  /* false: the device belongs to another rank, or is only described. The following fields are then
   * 0, except for a memory size that a description states. */
  bool is_here;
  size_t threads; /* Maximum number of threads that its kernels use; 0 for GPUs. */
  /* Size of its memory; 0: unknown. For a device on the host: that of its NUMA node, or of the
   * whole host. */
  uint64_t memory_bytes;
  /* Free part of this memory at the moment, as the operating system or the driver reports it; 0:
   * none, or unknown. */
  uint64_t free_bytes;
} tdm_device_properties;

/* Reports the properties of a device. INVALID_ARGUMENT if there is no such device; the message
 * lists those that exist.
 * @param device "cuda:0".
 * @param out_properties receives the properties; struct_size must be set. */
TDM_API tdm_status tdm_device_get_properties(tdm_context *context, const char *device,
                                             tdm_device_properties *out_properties) TDM_WARN_UNUSED;

/* Cost of copies from one device to another: latency + bytes / bandwidth. */
typedef struct tdm_link_properties {
  size_t struct_size; /* sizeof(tdm_link_properties), set by the caller. */
  /* true: measured by tdm_context_calibrate, now or earlier. false: estimated by a model. */
  bool measured;
  double latency_us;           /* Microseconds. */
  double gigabytes_per_second; /* 10^9 bytes per second; 0: no limit. */
} tdm_link_properties;

/* Reports the cost of copies from one device to another. UNSUPPORTED if copies pass through a third
 * device, which the message names; each hop has properties of its own.
 * @param from device to copy from.
 * @param to device to copy to.
 * @param pinned whether memory at the host's end is pinned, if one end is the host.
 * @param out_properties receives the properties; struct_size must be set. */
TDM_API tdm_status tdm_link_get_properties(tdm_context *context, const char *from, const char *to,
                                           bool pinned,
                                           tdm_link_properties *out_properties) TDM_WARN_UNUSED;

/* Predicts how long one copy takes, with corrections for sizes that were measured. UNSUPPORTED as
 * tdm_link_get_properties.
 * @param from device to copy from.
 * @param to device to copy to.
 * @param pinned as in tdm_link_get_properties.
 * @param bytes size of the copy.
 * @param out_us receives microseconds. */
TDM_API tdm_status tdm_link_predict(tdm_context *context, const char *from, const char *to,
                                    bool pinned, uint64_t bytes, double *out_us) TDM_WARN_UNUSED;

#ifdef __cplusplus
}
#endif
#endif
