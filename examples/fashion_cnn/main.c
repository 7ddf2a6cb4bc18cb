/* fashion_cnn: a convolutional network on two devices learns to tell clothes apart. This file is
 * the order of things; options.h tells what can be asked for. */
#include <stdio.h>

#include "examples/common/command_line.h"
#include "examples/fashion_cnn/train.h"

/* What a run of the program holds; released in one place. */
typedef struct program {
  options given;
  tdm_context *context;
  tdm_dataset *training;
  tdm_dataset *test;
  network made;
} program;

static void print_log(void *user, tdm_log_level level, const char *message) {
  (void)user;
  if (level != TDM_LOG_INFO) fprintf(stderr, "fashion_cnn: %s\n", message);
}

static tdm_status save_network(const network *saved, const char *path) {
  tdm_tensor_list *list = tdm_store_save(tdm_session_store(saved->session), false);
  tdm_status status = check_made(list);
  if (status == TDM_OK) status = tdm_safetensors_save(list, path);
  tdm_tensor_list_release(list);
  return status;
}

static void report(const evaluation *last) {
  for (int64_t i = 0; i < CLASS_COUNT; i++)
    printf("%-10s %.3f\n", data_class_name(i),
           last->there[i] ? (double)last->found[i] / (double)last->there[i] : 0);
  printf("accuracy %.4f on %lld test images\n", evaluation_accuracy(last),
         (long long)last->image_count);
}

static tdm_status run(program *self, int argc, char **argv) {
  tdm_status status = enter_working_folder();
  if (status == TDM_OK) status = options_read(argc, argv, &self->given);
  if (status != TDM_OK) return status;
  const options *given = &self->given;
  if (given->help) {
    options_print_help();
    return TDM_OK;
  }
  const tdm_context_options wanted = {.struct_size = sizeof wanted, .log = print_log};
  self->context = tdm_context_create(&wanted);
  if (!self->context) return check_made(self->context);
  self->training = data_read(self->context, given->data, true, given->training_images);
  if (self->training) self->test = data_read(self->context, given->data, false, given->test_images);
  if (!self->test) return check_made(self->test);
  status = network_create(self->context, given, &self->made);
  evaluation last = {.image_count = 0};
  if (status == TDM_OK)
    status = train_network(&self->made, given, self->training, self->test, &last);
  if (status == TDM_OK && given->save_path) status = save_network(&self->made, given->save_path);
  if (status == TDM_OK) report(&last);
  return status;
}

int main(int argc, char **argv) {
  program self = {.context = NULL};
  const tdm_status status = run(&self, argc, argv);
  if (status != TDM_OK) fprintf(stderr, "fashion_cnn: %s\n", tdm_last_message());
  network_release(&self.made);
  tdm_dataset_release(self.training);
  tdm_dataset_release(self.test);
  tdm_context_release(self.context);
  return status == TDM_OK ? 0 : 1;
}
