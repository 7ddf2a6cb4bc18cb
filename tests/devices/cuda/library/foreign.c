/* A plug-in that was compiled with other headers. */
#include "devices/cuda/library/plugin.h"

TDM_API extern const tdm_cuda_plugin tdm_cuda_plugin_table;
const tdm_cuda_plugin tdm_cuda_plugin_table = {.interface = "of another version"};
