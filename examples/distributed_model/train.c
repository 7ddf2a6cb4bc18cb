/* The loops over batches. Invariant: a batch's tensors are released before the next is asked for,
 * on failure too. */
#include "examples/distributed_model/train.h"

#include <stdio.h>

#include "examples/common/command_line.h"
#include "examples/common/output_file.h"
#include "examples/common/progress.h"
#include "examples/distributed_model/data.h"
#include "examples/distributed_model/steps.h"

/* What tdm_words_loader delivers. */
enum { CHARACTERS, CLASSES, BATCH_FIELDS };
enum { EVALUATION_BATCH = 1024 };

typedef struct batch {
  tdm_tensor *fields[BATCH_FIELDS]; /* int64 (length, rows), int64 (rows) */
  int64_t rows;                     /* 0: the epoch is over */
} batch;

static void batch_release(batch *released) {
  for (int i = 0; i < BATCH_FIELDS; i++)
    tdm_tensor_release(released->fields[i]);
  *released = (batch){.rows = 0};
}

static tdm_status batch_next(tdm_loader *loader, batch *out_batch) {
  batch_release(out_batch);
  return tdm_loader_next(loader, out_batch->fields, &out_batch->rows);
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

/* scores (languages). */
static int64_t best_of(const float *scores, int64_t languages) {
  int64_t best = 0;
  for (int64_t i = 1; i < languages; i++)
    if (scores[i] > scores[best]) best = i;
  return best;
}

static tdm_status evaluate_batch(model *evaluated, const batch *taken, evaluation *counted) {
  const int64_t languages = (int64_t)tdm_words_class_count(evaluated->words);
  const tdm_feed feed = {MODEL_CHARACTERS, taken->fields[CHARACTERS], false};
  tdm_fetch fetch = {MODEL_SCORES, NULL};
  const tdm_status status = tdm_run(evaluated->session, &feed, 1, &fetch, 1);
  if (status != TDM_OK) return status;
  const float *scores = tdm_tensor_data(fetch.tensor);              /* (rows, languages) */
  const int64_t *classes = tdm_tensor_data(taken->fields[CLASSES]); /* (rows) */
  for (int64_t i = 0; i < taken->rows; i++) {
    const int64_t answer = best_of(scores + i * languages, languages);
    counted->confusion[classes[i]][answer]++;
    counted->correct_count += answer == classes[i];
  }
  counted->word_count += taken->rows;
  tdm_tensor_release(fetch.tensor);
  return TDM_OK;
}

static tdm_status evaluate_model(model *evaluated, evaluation *out_counted) {
  *out_counted = (evaluation){.word_count = 0};
  tdm_loader *loader =
      data_create_loader(evaluated->words, false, EVALUATION_BATCH, false, 0, NULL);
  batch taken = {.rows = 0};
  tdm_status status = check_made(loader);
  if (status == TDM_OK) status = tdm_loader_start(loader, 0);
  if (status == TDM_OK) status = batch_next(loader, &taken);
  while (status == TDM_OK && taken.rows > 0) {
    status = evaluate_batch(evaluated, &taken, out_counted);
    if (status == TDM_OK) status = batch_next(loader, &taken);
  }
  batch_release(&taken);
  tdm_loader_release(loader);
  return status;
}

/* ---- Training -------------------------------------------------------------------------------- */

typedef struct training {
  model *trained;
  const options *given;
  tdm_loader *loader;
  progress bar;
  int64_t step;         /* submitted, over all epochs */
  int64_t step_count;   /* of all epochs */
  int64_t word_count;   /* trained on so far */
  uint64_t training_ns; /* without evaluation */
} training;

static tdm_status train_batch(training *run, steps *under_way, const batch *taken,
                              double *mean_loss) {
  const double left = 1.0 - (double)run->step / (double)run->step_count;
  tdm_session_set_learning_rate(run->trained->session, run->given->learning_rate * left);
  const tdm_feed feeds[] = {{MODEL_CHARACTERS, taken->fields[CHARACTERS], true},
                            {MODEL_CLASSES, taken->fields[CLASSES], true}};
  const tdm_status status = steps_submit(under_way, feeds, 2, taken->rows, mean_loss);
  if (status == TDM_OK) run->step++;
  return status;
}

/* Submits all batches of the epoch that the loader has begun. */
static tdm_status submit_epoch(training *run, steps *under_way, const char *label) {
  const int64_t batch_count = tdm_loader_batch_count(run->loader);
  batch taken = {.rows = 0};
  tdm_status status = batch_next(run->loader, &taken);
  for (int64_t i = 0; status == TDM_OK && taken.rows > 0; i++) {
    double loss = 0;
    status = train_batch(run, under_way, &taken, &loss);
    if (status != TDM_OK) break;
    char note[32];
    snprintf(note, sizeof note, "loss %.3f", loss);
    progress_show(&run->bar, label, i + 1, batch_count, note);
    status = batch_next(run->loader, &taken);
  }
  batch_release(&taken);
  return status;
}

/* One pass over the words; out_loss gets the mean loss of a word. */
static tdm_status train_epoch(training *run, int64_t epoch, double *out_loss) {
  char label[64];
  snprintf(label, sizeof label, "epoch %lld/%lld", (long long)epoch + 1,
           (long long)run->given->epochs);
  steps under_way;
  tdm_status status = tdm_loader_start(run->loader, (uint64_t)epoch);
  if (status != TDM_OK) return status;
  steps_start(&under_way, run->trained->session);
  const tdm_status submitted = submit_epoch(run, &under_way, label);
  status = steps_finish(&under_way);
  progress_clear(&run->bar);
  run->word_count += under_way.words;
  *out_loss = under_way.words ? under_way.loss_sum / (double)under_way.words : 0;
  return status != TDM_OK ? status : submitted;
}

static tdm_status train_and_evaluate(training *run, int64_t epoch, evaluation *out_counted) {
  const uint64_t began_ns = monotonic_ns();
  const int64_t words_before = run->word_count;
  double loss = 0;
  tdm_status status = train_epoch(run, epoch, &loss);
  if (status != TDM_OK) return status;
  const uint64_t took_ns = monotonic_ns() - began_ns;
  run->training_ns += took_ns;
  if (run->given->trace_path && epoch + 1 == run->given->epochs)
    status = write_trace(run->trained->session, "--trace", run->given->trace_path);
  if (status != TDM_OK) return status;
  status = evaluate_model(run->trained, out_counted);
  if (status != TDM_OK) return status;
  printf("epoch %lld/%lld  loss %.4f  held-out accuracy %.4f  %.0f words/s\n", (long long)epoch + 1,
         (long long)run->given->epochs, loss, evaluation_accuracy(out_counted),
         (double)(run->word_count - words_before) / ((double)took_ns / 1e9));
  fflush(stdout);
  return TDM_OK;
}

tdm_status train_model(model *trained, const options *given, evaluation *out_last) {
  if (given->epochs == 0) {
    const tdm_status status = evaluate_model(trained, out_last);
    if (status != TDM_OK || !given->trace_path) return status;
    return write_trace(trained->session, "--trace", given->trace_path);
  }
  training run = {.trained = trained, .given = given, .bar = progress_start()};
  run.loader = data_create_loader(trained->words, true, given->batch_size, true, given->seed,
                                  trained->accelerator);
  if (!run.loader) return check_made(run.loader);
  run.step_count = given->epochs * tdm_loader_batch_count(run.loader);
  tdm_status status = TDM_OK;
  for (int64_t epoch = 0; status == TDM_OK && epoch < given->epochs; epoch++)
    status = train_and_evaluate(&run, epoch, out_last);
  tdm_loader_release(run.loader);
  if (status == TDM_OK) {
    const double seconds = (double)run.training_ns / 1e9;
    printf("trained on %lld words in %.2f s: %.0f words/s\n", (long long)run.word_count, seconds,
           (double)run.word_count / seconds);
  }
  return status;
}

/* ---- The common plan ------------------------------------------------------------------------- */

/* Keeps in seen[length] one full batch of each length; counts words of each. */
static tdm_status collect_lengths(tdm_loader *loader, int64_t batch_size, batch *seen,
                                  int64_t *counts) {
  tdm_status status = tdm_loader_start(loader, 0);
  while (status == TDM_OK) {
    batch taken = {.rows = 0};
    status = batch_next(loader, &taken);
    if (status != TDM_OK || taken.rows == 0) break;
    const int64_t length = tdm_tensor_shape(taken.fields[CHARACTERS]).dims[0];
    counts[length] += taken.rows;
    if (seen[length].rows < taken.rows && seen[length].rows < batch_size) {
      batch_release(&seen[length]);
      seen[length] = taken;
    } else {
      batch_release(&taken);
    }
  }
  return status;
}

tdm_status train_prepare_common(model *trained, const options *given) {
  batch seen[MAX_WORD_LENGTH + 1] = {{.rows = 0}};
  int64_t counts[MAX_WORD_LENGTH + 1] = {0};
  tdm_loader *loader = data_create_loader(trained->words, true, given->batch_size, false,
                                          given->seed, trained->accelerator);
  tdm_status status = check_made(loader);
  if (status == TDM_OK) status = collect_lengths(loader, given->batch_size, seen, counts);
  int common = 0;
  for (int i = 1; i <= MAX_WORD_LENGTH; i++)
    if (counts[i] > counts[common]) common = i;
  if (status == TDM_OK) {
    const tdm_feed feeds[] = {{MODEL_CHARACTERS, seen[common].fields[CHARACTERS], false},
                              {MODEL_CLASSES, seen[common].fields[CLASSES], false}};
    status = tdm_session_prepare(trained->session, feeds, 2, NULL, 0, true);
  }
  for (int i = 0; i <= MAX_WORD_LENGTH; i++)
    batch_release(&seen[i]);
  tdm_loader_release(loader);
  return status;
}
