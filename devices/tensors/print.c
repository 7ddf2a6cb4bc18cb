/* Prints tensors like PyTorch (torch/_tensor_str.py with its default options). Invariant: all
 * elements shown have the same width. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/number.h"
#include "devices/context/context.h"
#include "devices/tensors/half.h"
#include "devices/tensors/tensor.h"

enum { EDGE_ITEMS = 3, MOST_ELEMENTS = 1000, LINE_WIDTH = 80, INDENT = 7, ELEMENT_BYTES = 400 };

typedef enum style { STYLE_NUMBER, STYLE_WHOLE, STYLE_FIXED, STYLE_POWERS } style;

typedef struct printer {
  FILE *out;
  const tdm_shape *shape;
  tdm_dtype dtype; /* dtype of data */
  tdm_dtype shown; /* dtype of the printed elements: float32 for float16 and bfloat16 */
  const void *data;
  bool shortened; /* the middle of long dimensions is omitted */
  style style;
  int width;
  double smallest, largest; /* absolute values of elements that are neither zero nor infinite */
  bool whole;               /* all of these elements are whole numbers */
  bool any;                 /* there is at least one such element */
  int column;               /* column of the next character */
  int counted;              /* columns of the last line, including suffixes */
} printer;

/* ---- Elements -------------------------------------------------------------------------------- */

static bool is_real(const printer *self) {
  return tdm_dtype_is_floating(self->dtype);
}

static double real_at(const printer *self, int64_t index) {
  return self->dtype == TDM_FLOAT32 ? (double)((const float *)self->data)[index]
                                    : ((const double *)self->data)[index];
}

static int64_t integer_at(const printer *self, int64_t index) {
  switch (self->dtype) {
  case TDM_INT32:
    return ((const int32_t *)self->data)[index];
  case TDM_INT64:
    return ((const int64_t *)self->data)[index];
  default:
    return ((const uint8_t *)self->data)[index];
  }
}

/* Writes the element without padding. */
static int write_element(const printer *self, int64_t index, char *text) {
  if (self->dtype == TDM_BOOL)
    return snprintf(text, ELEMENT_BYTES, "%s", integer_at(self, index) ? "True" : "False");
  if (!is_real(self)) return snprintf(text, ELEMENT_BYTES, "%" PRId64, integer_at(self, index));
  const double value = real_at(self, index);
  if (isnan(value)) return snprintf(text, ELEMENT_BYTES, "nan");
  if (isinf(value)) return snprintf(text, ELEMENT_BYTES, value < 0 ? "-inf" : "inf");
  if (self->style == STYLE_POWERS) return snprintf(text, ELEMENT_BYTES, "%.4e", value);
  if (self->style == STYLE_WHOLE) return snprintf(text, ELEMENT_BYTES, "%.0f.", value);
  return snprintf(text, ELEMENT_BYTES, "%.4f", value);
}

/* ---- Shown elements -------------------------------------------------------------------------- */

typedef void (*visit_element)(printer *self, int64_t index);

static bool leaves_out(const printer *self, int64_t extent) {
  return self->shortened && extent > 2 * EDGE_ITEMS;
}

/* Returns the next shown index of a dimension after i. */
static int64_t next_shown(const printer *self, int64_t extent, int64_t i) {
  return leaves_out(self, extent) && i == EDGE_ITEMS - 1 ? extent - EDGE_ITEMS : i + 1;
}

static void visit(printer *self, int dimension, int64_t base, visit_element call) {
  if (dimension == self->shape->rank) {
    call(self, base);
    return;
  }
  const int64_t extent = self->shape->dims[dimension];
  for (int64_t i = 0; i < extent; i = next_shown(self, extent, i))
    visit(self, dimension + 1, base * extent + i, call);
}

static void look_at(printer *self, int64_t index) {
  if (!is_real(self)) return;
  const double value = fabs(real_at(self, index));
  if (value == 0 || !isfinite(value)) return;
  if (!self->any || value < self->smallest) self->smallest = value;
  if (!self->any || value > self->largest) self->largest = value;
  self->whole &= value == ceil(value);
  self->any = true;
}

static void measure(printer *self, int64_t index) {
  if (is_real(self) && (real_at(self, index) == 0 || !isfinite(real_at(self, index)))) return;
  char text[ELEMENT_BYTES];
  const int width = write_element(self, index, text);
  if (width > self->width) self->width = width;
}

static void choose_style(printer *self) {
  self->width = 1;
  self->whole = true;
  visit(self, 0, 0, look_at);
  const bool far = self->any && (self->largest / self->smallest > 1000.0 || self->largest > 1e8);
  const bool small = self->any && !self->whole && self->smallest < 1e-4;
  self->style = !is_real(self) ? STYLE_NUMBER
                : far || small ? STYLE_POWERS
                : self->whole  ? STYLE_WHOLE
                               : STYLE_FIXED;
  visit(self, 0, 0, measure);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void put(printer *self, const char *text) {
  for (; *text; text++) {
    fputc(*text, self->out);
    self->column = *text == '\n' ? 0 : self->column + 1;
  }
}

static void put_spaces(printer *self, int count) {
  for (int i = 0; i < count; i++)
    put(self, " ");
}

static void put_element(printer *self, int64_t index) {
  char text[ELEMENT_BYTES];
  const int width = write_element(self, index, text);
  put_spaces(self, self->width - width);
  put(self, text);
}

/* Prints the last dimension, with as many elements per line as fit. */
static void put_row(printer *self, int indent, int64_t base) {
  const int64_t extent = self->shape->dims[self->shape->rank - 1];
  const int fitting = (LINE_WIDTH - indent) / (self->width + 2);
  const int on_line = fitting > 1 ? fitting : 1;
  int placed = 0;
  put(self, "[");
  for (int64_t i = 0; i < extent; i = next_shown(self, extent, i)) {
    const int items = leaves_out(self, extent) && i == extent - EDGE_ITEMS ? 2 : 1;
    for (int k = 0; k < items; k++) {
      if (placed > 0) put(self, placed % on_line == 0 ? ",\n" : ", ");
      if (placed > 0 && placed % on_line == 0) put_spaces(self, indent + 1);
      if (items == 2 && k == 0)
        put(self, " ...");
      else
        put_element(self, base * extent + i);
      placed++;
    }
  }
  put(self, "]");
}

static void put_separator(printer *self, int newlines, int indent) {
  put(self, ",");
  for (int i = 0; i < newlines; i++)
    put(self, "\n");
  put_spaces(self, indent);
}

static void put_dimension(printer *self, int dimension, int indent, int64_t base) {
  const int left = self->shape->rank - dimension;
  if (left == 1) {
    put_row(self, indent, base);
    return;
  }
  const int64_t extent = self->shape->dims[dimension];
  put(self, "[");
  for (int64_t i = 0; i < extent; i = next_shown(self, extent, i)) {
    if (i > 0) put_separator(self, left - 1, indent + 1);
    if (leaves_out(self, extent) && i == extent - EDGE_ITEMS) {
      put(self, "...");
      put_separator(self, left - 1, indent + 1);
    }
    put_dimension(self, dimension + 1, indent + 1, base * extent + i);
  }
  put(self, "]");
}

static void put_suffix(printer *self, const char *text) {
  const int length = (int)strlen(text);
  if (self->counted + length + 2 > LINE_WIDTH) {
    put(self, ",\n");
    put_spaces(self, INDENT);
    self->counted = INDENT + length;
  } else {
    put(self, ", ");
    self->counted += length + 2;
  }
  put(self, text);
}

static void put_suffixes(printer *self, const char *device, bool empty) {
  char text[TDM_SHAPE_TEXT + 32];
  self->counted = self->column + 2; /* includes two columns, as PyTorch counts them */
  if (strcmp(device, "cpu:0") != 0) {
    (void)snprintf(text, sizeof text, "device='%s'", device);
    put_suffix(self, text);
  }
  if (empty && self->shape->rank != 1) {
    char shape[TDM_SHAPE_TEXT];
    tdm_shape_text(self->shape, shape, sizeof shape);
    shape[0] = '(';
    shape[strlen(shape) - 1] = ')';
    (void)snprintf(text, sizeof text, "size=%s", shape);
    put_suffix(self, text);
  }
  const bool plain = self->shown == TDM_FLOAT32 ||
                     (!empty && (self->shown == TDM_INT64 || self->shown == TDM_BOOL));
  if (plain) return;
  (void)snprintf(text, sizeof text, "dtype=torch.%s", tdm_dtype_name(self->shown));
  put_suffix(self, text);
}

static void print(printer *self, const char *device) {
  const bool empty = tdm_shape_count(self->shape) == 0;
  put(self, "tensor(");
  if (empty) {
    put(self, "[]");
  } else {
    choose_style(self);
    if (self->shape->rank == 0)
      put_element(self, 0);
    else
      put_dimension(self, 0, INDENT, 0);
  }
  put_suffixes(self, device, empty);
  put(self, ")\n");
}

/* Prints tensor, whose elements are at data, with dtype `shown`. */
static tdm_status print_elements(const tdm_tensor *tensor, tdm_dtype shown, const void *data,
                                 const char *device, FILE *out) {
  printer self = {.out = out,
                  .shape = &tensor->shape,
                  .dtype = tensor->dtype,
                  .shown = shown,
                  .data = data,
                  .shortened = tdm_shape_count(&tensor->shape) > MOST_ELEMENTS};
  tdm_plain_locale locale;
  tdm_plain_locale_enter(&locale);
  print(&self, device);
  tdm_plain_locale_leave(&locale);
  return ferror(out) ? tdm_fail(TDM_IO, "tdm_tensor_print: the file cannot be written") : TDM_OK;
}

/* Prints the exact float32 values by the same rules. */
static tdm_status print_half(const tdm_tensor *tensor, FILE *out) {
  tdm_tensor *wide = tdm_tensor_to((tdm_tensor *)tensor, "cpu:0", TDM_FLOAT32);
  if (!wide) return tdm_last_status();
  const tdm_status status = print_elements(wide, tensor->dtype, tdm_tensor_host_data(wide),
                                           tdm_tensor_device(tensor), out);
  tdm_tensor_release(wide);
  return status;
}

tdm_status tdm_tensor_print(const tdm_tensor *tensor, FILE *out) {
  if (!tensor || !out) return tdm_fail_null("tdm_tensor_print: the tensor or the file");
  if (tdm_is_half(tensor->dtype)) return print_half(tensor, out);
  const tdm_allocator *allocator = tdm_context_allocator(tensor->storage->context);
  void *copy = NULL;
  const void *data = tdm_tensor_host_data(tensor);
  tdm_status status = TDM_OK;
  if (!data && tensor->bytes > 0) {
    copy = tdm_allocate(allocator, tensor->bytes, "a tensor to be printed");
    status = copy ? tdm_tensor_read(tensor, copy, tensor->bytes) : TDM_OUT_OF_MEMORY;
    data = copy;
  }
  if (status == TDM_OK)
    status = print_elements(tensor, tensor->dtype, data, tdm_tensor_device(tensor), out);
  tdm_release(allocator, copy, tensor->bytes);
  return status;
}
