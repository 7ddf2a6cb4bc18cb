/* See inspect.h. Elements are mapped, and read only where they are asked for. */
#include "tools/inspect/inspect.h"

#include <stdio.h>
#include <string.h>

#include "tandem/tandem.h"

typedef struct options {
  const char *path;
  const char *tensor; /* whose elements are printed; NULL: none */
  bool help;
} options;

static tdm_status read_options(int argc, char **argv, options *out_options) {
  *out_options = (options){0};
  for (int i = 0; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      out_options->help = true;
      return TDM_OK;
    }
    if (strcmp(argv[i], "--tensor") == 0 && i + 1 < argc) {
      out_options->tensor = argv[++i];
    } else if (argv[i][0] == '-' || out_options->path) {
      return tdm_fail(TDM_INVALID_ARGUMENT,
                      "%s: one FILE is wanted, and of options --tensor NAME and --help", argv[i]);
    } else {
      out_options->path = argv[i];
    }
  }
  return out_options->path ? TDM_OK : tdm_fail(TDM_INVALID_ARGUMENT, "FILE is wanted (see --help)");
}

static void print_help(void) {
  printf("tandem inspect FILE.safetensors [options]\n\n"
         "Names, dtypes, shapes and bytes of the tensors in FILE.\n\n"
         "  --tensor NAME   prints its elements instead, as PyTorch does\n"
         "  --help          this text\n");
}

static int widest_name(const tdm_tensor_list *list) {
  size_t widest = strlen("tensor");
  for (size_t i = 0; i < tdm_tensor_list_count(list); i++) {
    const size_t length = strlen(tdm_tensor_list_name(list, i));
    if (length > widest) widest = length;
  }
  return widest < 60 ? (int)widest : 60;
}

static void print_list(const tdm_tensor_list *list) {
  const int width = widest_name(list);
  const size_t count = tdm_tensor_list_count(list);
  unsigned long long elements = 0, bytes = 0;
  printf("%-*s  %-8s %14s  %s\n", width, "tensor", "dtype", "bytes", "shape");
  for (size_t i = 0; i < count; i++) {
    const tdm_tensor *tensor = tdm_tensor_list_tensor(list, i);
    const tdm_shape shape = tdm_tensor_shape(tensor);
    char text[TDM_SHAPE_TEXT];
    printf("%-*s  %-8s %14zu  %s\n", width, tdm_tensor_list_name(list, i),
           tdm_dtype_name(tdm_tensor_dtype(tensor)), tdm_tensor_bytes(tensor),
           tdm_shape_text(&shape, text, sizeof text));
    elements += (unsigned long long)tdm_shape_count(&shape);
    bytes += tdm_tensor_bytes(tensor);
  }
  printf("%zu tensors, %llu elements, %llu bytes\n", count, elements, bytes);
}

static tdm_status print_tensor(const tdm_tensor_list *list, const options *given) {
  const tdm_tensor *tensor = tdm_tensor_list_find(list, given->tensor);
  if (!tensor)
    return tdm_fail(TDM_INVALID_ARGUMENT, "%s has no tensor %s", given->path, given->tensor);
  return tdm_tensor_print(tensor, stdout);
}

static tdm_status inspect(const options *given) {
  const tdm_context_options plain = {
      .struct_size = sizeof plain, .cpu_devices = 1, .sim_devices = -1};
  tdm_context *context = tdm_context_create(&plain);
  tdm_tensor_list *list = context ? tdm_safetensors_map(context, given->path) : NULL;
  tdm_status status = list ? TDM_OK : TDM_CORRUPT_DATA;
  if (list && given->tensor) {
    status = print_tensor(list, given);
  } else if (list) {
    print_list(list);
  }
  if (status == TDM_OK && (fflush(stdout) != 0 || ferror(stdout)))
    status = tdm_fail(TDM_IO, "cannot write it all");
  tdm_tensor_list_release(list);
  tdm_context_release(context);
  return status;
}

int inspect_command(int argc, char **argv) {
  options given;
  const tdm_status read = read_options(argc, argv, &given);
  if (read == TDM_OK && given.help) {
    print_help();
    return 0;
  }
  if (read == TDM_OK && inspect(&given) == TDM_OK) return 0;
  fprintf(stderr, "tandem inspect: %s\n", tdm_last_message());
  return read == TDM_OK ? 1 : 2;
}
