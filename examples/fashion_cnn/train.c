/* The loops over batches. Invariant: a batch's tensors are released before the next is asked for,
 * on failure too. */
#include "examples/fashion_cnn/train.h"

#include <stdio.h>

#include "examples/common/command_line.h"
#include "examples/common/output_file.h"
#include "examples/common/progress.h"

enum { EVALUATION_BATCH = 500, PREFETCHED = 2 };

typedef struct batch {
  tdm_tensor *fields[BATCH_FIELDS]; /* float32 (rows, 1, 28, 28), int64 (rows) */
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

static void count_answers(const float *scores, const int64_t *classes, int64_t rows,
                          evaluation *counted) {
  for (int64_t i = 0; i < rows; i++) {
    const float *of_image = scores + i * CLASS_COUNT; /* (classes) */
    int64_t best = 0;
    for (int64_t j = 1; j < CLASS_COUNT; j++)
      if (of_image[j] > of_image[best]) best = j;
    const bool correct = best == classes[i];
    counted->correct_count += correct;
    counted->found[classes[i]] += correct;
    counted->there[classes[i]]++;
  }
  counted->image_count += rows;
}

static tdm_status evaluate_batch(network *evaluated, const batch *taken, evaluation *counted) {
  const tdm_feed feed = {"images", taken->fields[IMAGES], false};
  tdm_fetch fetch = {"scores", NULL};
  const tdm_status status = tdm_run(evaluated->session, &feed, 1, &fetch, 1);
  if (status != TDM_OK) return status;
  count_answers(tdm_tensor_data(fetch.tensor), tdm_tensor_data(taken->fields[CLASSES]), taken->rows,
                counted);
  tdm_tensor_release(fetch.tensor);
  return TDM_OK;
}

static tdm_status evaluate_network(network *evaluated, tdm_dataset *test, evaluation *out_counted) {
  *out_counted = (evaluation){.image_count = 0};
  const tdm_loader_options wanted = {
      .struct_size = sizeof wanted, .batch_size = EVALUATION_BATCH, .prefetch = PREFETCHED};
  tdm_loader *loader = tdm_loader_create(test, &wanted);
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
  network *trained;
  const options *given;
  tdm_loader *loader;
  progress bar;
  int64_t step;       /* done, over all epochs */
  int64_t step_count; /* of all epochs */
} training;

static tdm_status train_batch(training *run, const batch *taken, double *out_loss) {
  const double left = 1.0 - (double)run->step / (double)run->step_count;
  tdm_session_set_learning_rate(run->trained->session, run->given->learning_rate * left);
  const tdm_feed feeds[] = {{"images", taken->fields[IMAGES], false},
                            {"classes", taken->fields[CLASSES], false}};
  const tdm_status status = tdm_train_step(run->trained->session, feeds, 2, NULL, 0, out_loss);
  if (status == TDM_OK) run->step++;
  return status;
}

/* One pass over the images; out_loss gets the mean loss of one, out_count how many there were. */
static tdm_status train_epoch(training *run, int64_t epoch, double *out_loss, int64_t *out_count) {
  const int64_t batch_count = tdm_loader_batch_count(run->loader);
  char label[64];
  snprintf(label, sizeof label, "epoch %lld/%lld", (long long)epoch + 1,
           (long long)run->given->epochs);
  batch taken = {.rows = 0};
  double loss_sum = 0;
  int64_t images = 0;
  tdm_status status = tdm_loader_start(run->loader, (uint64_t)epoch);
  if (status == TDM_OK) status = batch_next(run->loader, &taken);
  for (int64_t i = 0; status == TDM_OK && taken.rows > 0; i++) {
    double loss = 0;
    status = train_batch(run, &taken, &loss);
    if (status != TDM_OK) break;
    loss_sum += loss * (double)taken.rows;
    images += taken.rows;
    char note[32];
    snprintf(note, sizeof note, "loss %.3f", loss_sum / (double)images);
    progress_show(&run->bar, label, i + 1, batch_count, note);
    status = batch_next(run->loader, &taken);
  }
  batch_release(&taken);
  progress_clear(&run->bar);
  *out_loss = images ? loss_sum / (double)images : 0;
  *out_count = images;
  return status;
}

static tdm_status train_and_evaluate(training *run, int64_t epoch, tdm_dataset *test,
                                     evaluation *out_counted) {
  const uint64_t began_ns = monotonic_ns();
  double loss = 0;
  int64_t images = 0;
  tdm_status status = train_epoch(run, epoch, &loss, &images);
  if (status != TDM_OK) return status;
  const double seconds = (double)(monotonic_ns() - began_ns) / 1e9;
  if (run->given->trace_path && epoch + 1 == run->given->epochs)
    status = write_trace(run->trained->session, "--trace", run->given->trace_path);
  if (status == TDM_OK && run->given->explain && epoch + 1 == run->given->epochs)
    status = tdm_session_explain(run->trained->session, TDM_PLAN_TEXT, stdout);
  if (status == TDM_OK) status = evaluate_network(run->trained, test, out_counted);
  if (status != TDM_OK) return status;
  printf("epoch %lld/%lld  loss %.4f  test accuracy %.4f  %.0f images/s\n", (long long)epoch + 1,
         (long long)run->given->epochs, loss, evaluation_accuracy(out_counted),
         (double)images / seconds);
  fflush(stdout);
  return TDM_OK;
}

tdm_status train_network(network *trained, const options *given, tdm_dataset *training_set,
                         tdm_dataset *test, evaluation *out_last) {
  if (given->epochs == 0) return evaluate_network(trained, test, out_last);
  training run = {.trained = trained, .given = given, .bar = progress_start()};
  const tdm_loader_options wanted = {.struct_size = sizeof wanted,
                                     .batch_size = given->batch_size,
                                     .shuffle = true,
                                     .seed = given->seed,
                                     .prefetch = PREFETCHED};
  run.loader = tdm_loader_create(training_set, &wanted);
  if (!run.loader) return check_made(run.loader);
  run.step_count = given->epochs * tdm_loader_batch_count(run.loader);
  tdm_status status = TDM_OK;
  for (int64_t epoch = 0; status == TDM_OK && epoch < given->epochs; epoch++)
    status = train_and_evaluate(&run, epoch, test, out_last);
  tdm_loader_release(run.loader);
  return status;
}
