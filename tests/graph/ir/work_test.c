/* The rules of work that operations share, on shapes that are small enough to count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/ir/records.h"

enum { ROWS = 20, WIDTH = 8, IDS = 6 };

/* A node of table (ROWS, WIDTH), rows (IDS, WIDTH), indices (IDS), which makes `outputs` like the
 * table, the last but the first a number; every operand was counted once. */
typedef struct node {
  tdm_spec inputs[3];
  tdm_spec outputs[4];
  tdm_infer infer;
  tdm_work work;
} node;

static void make(node *self, size_t outputs) {
  const tdm_spec table = {TDM_FLOAT32, TDM_FORMAT_DENSE, tdm_shape_of(2, ROWS, WIDTH)};
  const tdm_spec rows = {TDM_FLOAT32, TDM_FORMAT_DENSE, tdm_shape_of(2, IDS, WIDTH)};
  const tdm_spec ids = {TDM_INT64, TDM_FORMAT_DENSE, tdm_shape_of(1, IDS)};
  *self = (node){.inputs = {table, rows, ids}, .work = {.flops = 7}};
  for (size_t i = 0; i < outputs; i++)
    self->outputs[i] = table;
  self->infer = (tdm_infer){
      .inputs = self->inputs, .input_count = 3, .outputs = self->outputs, .output_count = outputs};
  self->work.bytes_read = (ROWS + IDS) * WIDTH * 4 + IDS * 8;
  self->work.bytes_written = (double)outputs * ROWS * WIDTH * 4;
}

static void expect(const node *self, double flops, double read, double written) {
  assert_true(self->work.flops == flops);
  assert_true(self->work.bytes_read == read);
  assert_true(self->work.bytes_written == written);
}

static void what_passes_once_is_counted_once(void **unused) {
  (void)unused;
  node it;
  make(&it, 1);
  const tdm_work all = it.work;
  tdm_work_streams(&it.infer, &it.work);
  expect(&it, 0, all.bytes_read, all.bytes_written);
  make(&it, 1);
  tdm_work_writes(&it.infer, &it.work);
  expect(&it, 7, 0, all.bytes_written);
  make(&it, 1);
  tdm_work_moves(&it.infer, &it.work);
  expect(&it, 7, all.bytes_written, all.bytes_written);
}

/* Only the requested rows of the table are read. */
static void a_look_up_reads_the_rows_that_it_names(void **unused) {
  (void)unused;
  node it;
  make(&it, 1);
  it.inputs[1] = it.inputs[2];
  it.work.bytes_read = ROWS * WIDTH * 4 + IDS * 8;
  tdm_work_looks_up(&it.infer, &it.work);
  expect(&it, 7, IDS * WIDTH * 4 + IDS * 8, ROWS * WIDTH * 4);
}

/* Each overwritten table has n rows written. The last of several outputs is a count. */
static void an_update_moves_its_rows_of_every_table(void **unused) {
  (void)unused;
  static const double tables[] = {[1] = 1, [2] = 1, [3] = 2, [4] = 3};
  for (size_t outputs = 1; outputs <= 4; outputs++) {
    node it;
    make(&it, outputs);
    tdm_work_updates_rows(&it.infer, &it.work);
    const double rows = IDS * WIDTH * 4;
    expect(&it, 7, rows + IDS * 8 + tables[outputs] * rows, tables[outputs] * rows);
  }
}

static void absent_operands_and_numbers_are_counted(void **unused) {
  (void)unused;
  const tdm_spec absent = {0}, number = {TDM_FLOAT64, TDM_FORMAT_DENSE, tdm_shape_scalar()};
  const tdm_spec row = {TDM_INT32, TDM_FORMAT_DENSE, tdm_shape_of(2, 3, 5)};
  assert_true(tdm_work_count(&absent) == 0 && tdm_work_bytes(&absent) == 0);
  assert_true(tdm_work_count(&number) == 1 && tdm_work_bytes(&number) == 8);
  assert_true(tdm_work_width(&number) == 1 && tdm_work_width(&row) == 5);
  assert_true(tdm_work_count(&row) == 15 && tdm_work_bytes(&row) == 60);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_passes_once_is_counted_once),
      cmocka_unit_test(a_look_up_reads_the_rows_that_it_names),
      cmocka_unit_test(an_update_moves_its_rows_of_every_table),
      cmocka_unit_test(absent_operands_and_numbers_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
