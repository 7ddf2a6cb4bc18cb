/* Trains over a loader, step by step. Invariant: a batch's tensors are released before the next
 * batch is requested. */
#include "core/status.h"
#include "tandem/checkpoint/checkpoint.h"

static void release_all(tdm_tensor **fields) {
  for (size_t i = 0; i < TDM_DATASET_MAX_FIELDS; i++) {
    tdm_tensor_release(fields[i]);
    fields[i] = NULL;
  }
}

/* Executes one step and adds its loss times its rows to *sum. *out_rows is 0 after the last
 * batch. */
static tdm_status step(tdm_session *session, tdm_loader *loader, const char *const *inputs,
                       size_t count, int64_t *out_rows, double *sum) {
  tdm_tensor *fields[TDM_DATASET_MAX_FIELDS] = {0};
  tdm_feed feeds[TDM_DATASET_MAX_FIELDS];
  TDM_TRY(tdm_loader_next(loader, fields, TDM_DATASET_MAX_FIELDS, out_rows));
  if (*out_rows == 0) return TDM_OK;
  for (size_t i = 0; i < count; i++)
    feeds[i] = (tdm_feed){inputs[i], fields[i], true};
  double loss = 0;
  const tdm_status status = tdm_train_step(session, feeds, count, NULL, 0, &loss);
  *sum += loss * (double)*out_rows;
  release_all(fields);
  return status;
}

tdm_status tdm_train_epoch(tdm_session *session, tdm_loader *loader, const char *const *inputs,
                           size_t count, uint64_t epoch, double *out_loss) {
  if (out_loss) *out_loss = 0;
  if (!session || !loader || !inputs || count < 1 || count > TDM_DATASET_MAX_FIELDS)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "tdm_train_epoch: a session, a loader, and 1 to %d names of inputs are needed",
                    TDM_DATASET_MAX_FIELDS);
  TDM_TRY(tdm_loader_start(loader, epoch));
  int64_t rows = 1, total = 0;
  double sum = 0;
  while (rows > 0) {
    TDM_TRY(step(session, loader, inputs, count, &rows, &sum));
    total += rows;
  }
  if (out_loss && total > 0) *out_loss = sum / (double)total;
  return TDM_OK;
}
