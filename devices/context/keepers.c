/* Caches of unused device memory. Invariant: a keeper is not removed while it is being called. */
#include "devices/context/context_state.h"

void tdm_context_add_keeper(tdm_context *context, tdm_keeper *keeper) {
  (void)pthread_mutex_lock(&context->keepers_mutex);
  keeper->before = NULL;
  keeper->behind = context->keepers;
  if (keeper->behind) keeper->behind->before = keeper;
  context->keepers = keeper;
  (void)pthread_mutex_unlock(&context->keepers_mutex);
}

void tdm_context_remove_keeper(tdm_context *context, tdm_keeper *keeper) {
  (void)pthread_mutex_lock(&context->keepers_mutex);
  if (keeper->before || context->keepers == keeper) {
    *(keeper->before ? &keeper->before->behind : &context->keepers) = keeper->behind;
    if (keeper->behind) keeper->behind->before = keeper->before;
  }
  (void)pthread_mutex_unlock(&context->keepers_mutex);
}

bool tdm_context_free_kept(tdm_context *context, const tdm_device *device) {
  bool found = false;
  (void)pthread_mutex_lock(&context->keepers_mutex);
  for (tdm_keeper *keeper = context->keepers; keeper; keeper = keeper->behind)
    found |= keeper->give_back(keeper, device);
  (void)pthread_mutex_unlock(&context->keepers_mutex);
  return found;
}
