/* The training loop. Invariant: a batch's tensors are released before the next is requested, on
 * failure too. */
#include "examples/common/learner.h"

#include <stdio.h>

#include "examples/common/curve_log.h"
#include "examples/common/interrupt.h"
#include "examples/common/middle.h"
#include "examples/common/written.h"
#include "tools/options/command_line.h"
#include "tools/progress/progress.h"

typedef struct training {
  const learner *self;
  const common_options *given;
  progress bar;
  curve_log log;
  middle from;          /* position in an epoch from which training continues */
  int64_t step;         /* submitted, over all epochs */
  int64_t step_count;   /* number of steps of all epochs */
  int64_t row_count;    /* rows trained so far */
  uint64_t training_ns; /* time without evaluation */
} training;

/* Executes a whole step before it returns, because the next step requires its state. */
static tdm_status train_carrying(training *run, steps *counted, carrier *state, const batch *taken,
                                 double *mean_loss) {
  const learner *self = run->self;
  tdm_feed feeds[TDM_DATASET_MAX_FIELDS + MOST_CARRIED];
  const size_t feed_count = carrier_feeds(state, self, taken, self->input_count, false, feeds);
  tdm_fetch fetches[MOST_CARRIED];
  for (size_t i = 0; i < self->carry_count; i++)
    fetches[i] = (tdm_fetch){self->carries[i].output, NULL};
  double loss = 0;
  const tdm_status status =
      tdm_train_step(self->session, feeds, feed_count, fetches, self->carry_count, &loss);
  if (status != TDM_OK) return status;
  carrier_take(state, self, fetches);
  counted->loss_sum += loss * (double)taken->rows;
  counted->rows += taken->rows;
  *mean_loss = counted->loss_sum / (double)counted->rows;
  return TDM_OK;
}

/* Returns the learning rate of the next step. */
static double learning_rate_of(const training *run) {
  return run->given->learning_rate * (1.0 - (double)run->step / (double)run->step_count);
}

static tdm_status train_batch(training *run, steps *under_way, carrier *state, const batch *taken,
                              double *mean_loss) {
  const learner *self = run->self;
  const tdm_status status = tdm_session_set_learning_rate(self->session, learning_rate_of(run));
  if (status != TDM_OK) return status;
  run->step++;
  if (self->carry_count) return train_carrying(run, under_way, state, taken, mean_loss);
  tdm_feed feeds[TDM_DATASET_MAX_FIELDS + MOST_CARRIED];
  const size_t feed_count = carrier_feeds(state, self, taken, self->input_count, true, feeds);
  return steps_submit(under_way, feeds, feed_count, taken->rows, mean_loss);
}

/* Returns true if the next step may be made. */
static bool goes_on(const training *run) {
  return !interrupt_came() && (!run->given->steps || run->step < run->given->steps);
}

/* Returns true if a checkpoint is due after this step. The end of an epoch always writes one. */
static bool is_time_for_checkpoint(const training *run, bool is_last, int64_t done,
                                   int64_t batch_count) {
  const common_options *given = run->given;
  if (!given->checkpoint_path || done >= batch_count) return false;
  return is_last || (given->checkpoint_steps && run->step % given->checkpoint_steps == 0);
}

/* Writes the reports of the latest runs that the options request. */
static tdm_status write_runs(const learner *self, const common_options *given) {
  tdm_status status = TDM_OK;
  if (given->trace_path) status = write_trace(self->session, "--trace", given->trace_path);
  if (status != TDM_OK || !given->report_path) return status;
  return write_report(self->session, "--report", given->report_path);
}

/* Fails because Ctrl-C ended training before all requested steps. */
static tdm_status fail_interrupted(const training *run) {
  const char *path = run->given->checkpoint_path;
  return tdm_fail(TDM_CANCELLED, "interrupted after %lld steps%s%s", (long long)run->step,
                  path ? ", from which --resume continues training " : "; nothing was written",
                  path ? path : "");
}

/* Sets the feeds of the first step of the epoch, or of its rest. */
static void begin_state(training *run, carrier *state) {
  if (run->from.is_there) {
    *state = run->from.state;
    run->from = (middle){.is_there = false};
  } else {
    carrier_begin(state, run->self);
  }
}

/* Writes a line of the log if it is due. `done` batches of the epoch have ended. */
static void log_step(training *run, steps *under_way, int64_t epoch, int64_t done,
                     int64_t batch_count) {
  if (done >= batch_count || !curve_log_is_due(&run->log, run->step)) return;
  int64_t rows;
  double loss_sum;
  steps_tell(under_way, &rows, &loss_sum);
  if (rows == run->log.rows) return; /* no step has ended since the last line */
  curve_log_take(&run->log, rows, loss_sum);
  curve_log_write(&run->log, run->step, (double)epoch + (double)done / (double)batch_count, NULL,
                  learning_rate_of(run));
}

/* Submits all batches that are left of the epoch that the loader has begun. */
static tdm_status submit_epoch(training *run, steps *under_way, int64_t epoch) {
  char label[64];
  (void)snprintf(label, sizeof label, "epoch %lld/%lld", (long long)epoch + 1,
                 (long long)run->given->epochs);
  tdm_loader *loader = run->self->training;
  const int64_t batch_count = tdm_loader_batch_count(loader);
  carrier state;
  begin_state(run, &state);
  batch taken = {.rows = 0};
  tdm_status status = goes_on(run) ? learner_next(run->self, loader, &taken) : TDM_OK;
  while (status == TDM_OK && taken.rows > 0) {
    double loss = 0;
    status = train_batch(run, under_way, &state, &taken, &loss);
    if (status != TDM_OK) break;
    int64_t done;
    tdm_loader_position(loader, NULL, &done);
    char note[32];
    (void)snprintf(note, sizeof note, "loss %.3f", loss);
    progress_show(&run->bar, label, done, batch_count, note);
    const bool is_last = !goes_on(run);
    if (!is_last) log_step(run, under_way, epoch, done, batch_count);
    if (is_time_for_checkpoint(run, is_last, done, batch_count))
      status = middle_save(run->self, under_way, &state, run->given->checkpoint_path);
    if (status != TDM_OK || is_last) break;
    status = learner_next(run->self, loader, &taken);
  }
  batch_release(&taken);
  carrier_end(&state, run->self);
  return status;
}

/* One pass over what is learnt from; out_loss gets the mean loss of a row. */
static tdm_status train_epoch(training *run, int64_t epoch, double *out_loss) {
  steps under_way;
  tdm_status status = TDM_OK;
  if (!run->from.is_there) status = tdm_loader_start(run->self->training, (uint64_t)epoch);
  if (status != TDM_OK) return status;
  steps_start(&under_way, run->self->session);
  const int64_t rows_before = run->from.is_there ? run->from.rows : 0;
  under_way.rows = rows_before;
  if (run->from.is_there) under_way.loss_sum = run->from.loss_sum;
  curve_log_begin_epoch(&run->log, under_way.rows, under_way.loss_sum);
  const tdm_status submitted = submit_epoch(run, &under_way, epoch);
  status = steps_finish(&under_way);
  curve_log_take(&run->log, under_way.rows, under_way.loss_sum);
  progress_clear(&run->bar);
  run->row_count += under_way.rows - rows_before;
  *out_loss = under_way.rows ? under_way.loss_sum / (double)under_way.rows : 0;
  return status != TDM_OK ? status : submitted;
}

static int64_t units_of(const learner *self, int64_t rows) {
  return rows * (self->row_units ? self->row_units : 1);
}

static tdm_status train_and_judge(training *run, int64_t epoch) {
  const learner *self = run->self;
  const uint64_t began_ns = monotonic_ns();
  const int64_t rows_before = run->row_count;
  double loss = 0;
  tdm_status status = train_epoch(run, epoch, &loss);
  if (status != TDM_OK) return status;
  const uint64_t took_ns = monotonic_ns() - began_ns;
  run->training_ns += took_ns;
  int64_t done;
  tdm_loader_position(self->training, NULL, &done);
  if (run->given->checkpoint_path && done == tdm_loader_batch_count(self->training))
    status = epoch_save(self, run->given->checkpoint_path);
  if (status == TDM_OK && interrupt_came()) return fail_interrupted(run);
  if (status == TDM_OK && (epoch + 1 == run->given->epochs || !goes_on(run)))
    status = write_runs(self, run->given);
  if (status == TDM_OK) status = evaluate(self);
  if (status == TDM_OK && interrupt_came()) return fail_interrupted(run);
  if (status != TDM_OK) return status;
  const double score = self->judging.score(self->judging.user);
  curve_log_write(&run->log, run->step,
                  (double)epoch + (double)done / (double)tdm_loader_batch_count(self->training),
                  &score, learning_rate_of(run));
  printf("epoch %lld/%lld  loss %.4f  %s %.4f  %.0f %s/s\n", (long long)epoch + 1,
         (long long)run->given->epochs, loss, self->judging.score_name, score,
         (double)units_of(self, run->row_count - rows_before) / ((double)took_ns / 1e9),
         self->unit);
  fflush(stdout);
  return TDM_OK;
}

/* Continues from the options' checkpoint; *out_epoch is the next epoch. */
static tdm_status resume(training *run, int64_t *out_epoch) {
  const learner *self = run->self;
  const char *path = run->given->resume_path;
  const tdm_status status = middle_load(self, path, &run->from);
  if (status != TDM_OK) return fail_within(status, "--resume");
  uint64_t epoch;
  tdm_loader_position(self->training, &epoch, NULL);
  *out_epoch = (int64_t)epoch + (run->from.is_there ? 0 : 1);
  run->step = (int64_t)tdm_session_step(self->session);
  if (run->given->steps && run->step >= run->given->steps)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "--resume %s: it has made %lld steps, and --steps is %lld", path,
                    (long long)run->step, (long long)run->given->steps);
  if (*out_epoch < run->given->epochs) return TDM_OK;
  return tdm_fail(TDM_INVALID_ARGUMENT,
                  "--resume %s: it has made %lld epochs, and --epochs is %lld", path,
                  (long long)*out_epoch, (long long)run->given->epochs);
}

/* Options that would do nothing are refused. */
static tdm_status check_options(const common_options *given) {
  const char *of_training = given->resume_path       ? "--resume"
                            : given->checkpoint_path ? "--checkpoint"
                            : given->log_path        ? "--log"
                                                     : NULL;
  if (given->epochs == 0 && of_training)
    return tdm_fail(TDM_INVALID_ARGUMENT,
                    "%s is about training, and --epochs 0 trains nothing; --load evaluates what a "
                    "checkpoint holds",
                    of_training);
  if (given->checkpoint_steps && !given->checkpoint_path)
    return tdm_fail(TDM_INVALID_ARGUMENT, "--checkpoint-every needs --checkpoint");
  return TDM_OK;
}

tdm_status learner_train(const learner *self, const common_options *given) {
  const tdm_status checked = check_options(given);
  if (checked != TDM_OK) return checked;
  if (given->epochs == 0) {
    const tdm_status status = evaluate(self);
    return status == TDM_OK ? write_runs(self, given) : status;
  }
  training run = {
      .self = self, .given = given, .bar = given->rank == 0 ? progress_start() : (progress){0}};
  run.step_count = given->epochs * tdm_loader_batch_count(self->training);
  int64_t first = 0;
  /* Ranks would end after different steps: there the launcher ends them all. */
  const bool alone = given->rank_count <= 1;
  if (alone) interrupt_watch();
  tdm_status status = given->resume_path ? resume(&run, &first) : TDM_OK;
  if (status == TDM_OK) status = curve_log_begin(self, given, run.step, &run.log);
  for (int64_t epoch = first; status == TDM_OK && epoch < given->epochs && goes_on(&run); epoch++)
    status = train_and_judge(&run, epoch);
  if (status == TDM_OK && interrupt_came()) status = fail_interrupted(&run);
  const tdm_status logged = curve_log_end(&run.log);
  if (status == TDM_OK) status = logged;
  middle_release(&run.from, self);
  if (alone) interrupt_leave();
  if (status == TDM_OK) {
    const double seconds = (double)run.training_ns / 1e9;
    const int64_t units = units_of(self, run.row_count);
    printf("trained on %lld %s in %.2f s: %.0f %s/s\n", (long long)units, self->unit, seconds,
           (double)units / seconds, self->unit);
  }
  return status;
}
