/* See curve_log.h. */
#include "examples/common/curve_log.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/options/output_file.h"
#include "tools/progress/progress.h"

enum { LINES_AN_EPOCH = 50, LINE_BYTES = 512 };

static tdm_status fail(const char *path) {
  return tdm_fail(TDM_IO, "--log %s: %s", path, strerror(errno));
}

/* Copies the lines of up to `step`, and the heading. */
static void keep_lines(FILE *from, FILE *to, int64_t step) {
  char line[LINE_BYTES];
  for (bool is_heading = true; fgets(line, sizeof line, from); is_heading = false) {
    if (!strchr(line, '\n')) return; /* an incomplete line of a program that was stopped */
    if (is_heading || strtoll(line, NULL, 10) <= step) fputs(line, to);
  }
}

/* Removes the lines after a checkpoint, which are written again. */
static tdm_status cut(const char *path, int64_t step) {
  FILE *old = fopen(path, "re");
  if (!old) return errno == ENOENT ? TDM_OK : fail(path);
  output_file file;
  tdm_status status = output_begin("--log", path, &file);
  if (status == TDM_OK) {
    keep_lines(old, file.stream, step);
    status = output_end(&file, TDM_OK);
  }
  (void)fclose(old);
  return status;
}

tdm_status curve_log_begin(const learner *self, const common_options *given, int64_t step,
                           curve_log *out_log) {
  *out_log = (curve_log){.path = given->log_path};
  if (!given->log_path || given->rank != 0) return TDM_OK;
  const tdm_status status = step > 0 ? cut(given->log_path, step) : TDM_OK;
  if (status != TDM_OK) return status;
  out_log->stream = fopen(given->log_path, step > 0 ? "ae" : "we");
  if (!out_log->stream) return fail(given->log_path);
  (void)setvbuf(out_log->stream, NULL, _IOLBF, 0);
  if (fseek(out_log->stream, 0, SEEK_END) != 0) return fail(given->log_path);
  out_log->row_units = self->row_units ? self->row_units : 1;
  out_log->every = tdm_loader_batch_count(self->training) / LINES_AN_EPOCH;
  if (out_log->every == 0) out_log->every = 1;
  if (ftell(out_log->stream) == 0)
    fprintf(out_log->stream, "step\tepoch\tloss\t%s\t%s a second\tlearning rate\n",
            self->judging.score_name, self->unit);
  return TDM_OK;
}

void curve_log_begin_epoch(curve_log *log, int64_t rows, double loss_sum) {
  log->rows = rows;
  log->loss_sum = loss_sum;
  log->taken_ns = monotonic_ns();
}

bool curve_log_is_due(const curve_log *log, int64_t step) {
  return log->stream && step % log->every == 0;
}

void curve_log_take(curve_log *log, int64_t rows, double loss_sum) {
  const uint64_t now_ns = monotonic_ns();
  const double new_rows = (double)(rows - log->rows);
  const double seconds = (double)(now_ns - log->taken_ns) / 1e9;
  log->loss = new_rows > 0 ? (loss_sum - log->loss_sum) / new_rows : NAN;
  log->rate = seconds > 0 ? new_rows * (double)log->row_units / seconds : 0;
  log->rows = rows;
  log->loss_sum = loss_sum;
  log->taken_ns = now_ns;
}

void curve_log_write(curve_log *log, int64_t step, double epoch, const double *score,
                     double learning_rate) {
  if (!log->stream) return;
  char told_loss[32] = "-", told_score[32] = "-";
  if (!isnan(log->loss)) (void)snprintf(told_loss, sizeof told_loss, "%.6g", log->loss);
  if (score) (void)snprintf(told_score, sizeof told_score, "%.6g", *score);
  fprintf(log->stream, "%lld\t%.6g\t%s\t%s\t%.6g\t%.6g\n", (long long)step, epoch, told_loss,
          told_score, log->rate, learning_rate);
}

tdm_status curve_log_end(curve_log *log) {
  if (!log->stream) return TDM_OK;
  const bool failed = ferror(log->stream) != 0;
  const bool closed = fclose(log->stream) == 0;
  log->stream = NULL;
  return failed || !closed ? fail(log->path) : TDM_OK;
}
