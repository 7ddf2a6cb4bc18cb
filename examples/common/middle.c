/* Checkpoints in the middle of an epoch. Invariant: what is loaded has the shapes of what is
 * carried here. */
#include "examples/common/middle.h"

#include <string.h>

#include "tools/options/command_line.h"

static const char SUMS[] = "sums"; /* float64 (2): sum of the loss, and number of rows */

static tdm_status add_own(const learner *self, const steps *under_way, const carrier *state,
                          tdm_tensor_list *own) {
  const double sums[] = {under_way->loss_sum, (double)under_way->rows};
  tdm_tensor *tensor =
      tdm_tensor_from(tdm_session_context(self->session), TDM_FLOAT64, tdm_shape_of(1, 2), sums);
  tdm_status status = check_made(tensor);
  if (status == TDM_OK) status = tdm_tensor_list_add(own, SUMS, tensor);
  tdm_tensor_release(tensor);
  for (size_t i = 0; status == TDM_OK && i < self->carry_count; i++)
    status = tdm_tensor_list_add(own, self->carries[i].input, state->values[i]);
  for (size_t i = 0; status == TDM_OK && i < tdm_tensor_list_count(self->kept); i++)
    status = tdm_tensor_list_add(own, tdm_tensor_list_name(self->kept, i),
                                 tdm_tensor_list_tensor(self->kept, i));
  return status;
}

tdm_status epoch_save(const learner *self, const char *path) {
  return tdm_checkpoint_save_with(self->session, self->training, self->kept, path);
}

tdm_status middle_save(const learner *self, steps *under_way, const carrier *state,
                       const char *path) {
  tdm_status status = steps_wait(under_way);
  if (status != TDM_OK) return status;
  tdm_tensor_list *own = tdm_tensor_list_create(tdm_session_context(self->session));
  status = check_made(own);
  if (status == TDM_OK) status = add_own(self, under_way, state, own);
  if (status == TDM_OK) status = tdm_checkpoint_save_with(self->session, self->training, own, path);
  tdm_tensor_list_release(own);
  return status;
}

static bool fits(const tdm_tensor *a, const tdm_tensor *b) {
  if (!a || tdm_tensor_dtype(a) != tdm_tensor_dtype(b)) return false;
  const tdm_shape shapes[] = {tdm_tensor_shape(a), tdm_tensor_shape(b)};
  return shapes[0].rank == shapes[1].rank &&
         memcmp(shapes[0].dims, shapes[1].dims, (size_t)shapes[0].rank * sizeof *shapes[0].dims) ==
             0;
}

static tdm_status take_own(const learner *self, const tdm_tensor_list *own, const char *path,
                           middle *from) {
  const tdm_tensor *tensor = tdm_tensor_list_find(own, SUMS);
  double sums[2];
  if (!tensor || tdm_tensor_dtype(tensor) != TDM_FLOAT64 || tdm_tensor_bytes(tensor) != sizeof sums)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "%s: it is from the middle of an epoch, without the sums of its steps", path);
  memcpy(sums, tdm_tensor_data(tensor), sizeof sums);
  from->loss_sum = sums[0];
  from->rows = (int64_t)sums[1];
  for (size_t i = 0; i < self->carry_count; i++) {
    tdm_tensor *value = tdm_tensor_list_find(own, self->carries[i].input);
    if (!fits(value, self->carries[i].first))
      return tdm_fail(TDM_INVALID_ARGUMENT, "%s: %s is missing, or of another shape", path,
                      self->carries[i].input);
    from->state.values[i] = tdm_tensor_retain(value);
  }
  from->is_there = true;
  return TDM_OK;
}

tdm_status middle_load(const learner *self, const char *path, middle *from) {
  *from = (middle){.is_there = false};
  tdm_tensor_list *own;
  tdm_status status = tdm_checkpoint_load_with(self->session, self->training, path, &own);
  if (status != TDM_OK) return status;
  int64_t delivered;
  tdm_loader_position(self->training, NULL, &delivered);
  if (delivered != tdm_loader_batch_count(self->training)) status = take_own(self, own, path, from);
  tdm_tensor_list_release(own);
  return status;
}

void middle_release(middle *from, const learner *self) {
  carrier_end(&from->state, self);
  *from = (middle){.is_there = false};
}
