/* A stream that executes launches immediately on the grid, and products by three plain loops in
 * float64. */
#include "tests/devices/kernels/direct_cuda_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "devices/cuda/library/reports.h"
#include "tests/devices/cuda_emulation/grid.h"

enum { PAGE_BYTES = 4096, MOST_BLOCKS = 64 };

/* ---- Memory ---------------------------------------------------------------------------------- */

static direct_block blocks[MOST_BLOCKS]; /* pages NULL: free */

direct_block *direct_block_create(size_t bytes) {
  direct_block *block = blocks;
  while (block->pages)
    block++;
  assert_true(block < blocks + MOST_BLOCKS);
  block->page_bytes = (bytes / PAGE_BYTES + 1) * PAGE_BYTES;
  block->pages = mmap(NULL, block->page_bytes + PAGE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(block->pages != MAP_FAILED);
  assert_int_equal(mprotect(block->pages + block->page_bytes, PAGE_BYTES, PROT_NONE), 0);
  block->bytes = bytes;
  block->data = block->pages + block->page_bytes - bytes;
  memset(block->pages, DIRECT_SENTINEL, block->page_bytes);
  memset(block->data, DIRECT_POISON, bytes);
  return block;
}

bool direct_block_intact(const direct_block *block) {
  for (const unsigned char *at = block->pages; at < block->data; at++)
    if (*at != DIRECT_SENTINEL) return false;
  return true;
}

void direct_block_release(direct_block *block) {
  (void)munmap(block->pages, block->page_bytes + PAGE_BYTES);
  *block = (direct_block){0};
}

/* An empty tensor's address is the end of its block. */
static void require_live(const void *pointer, const char *name) {
  if (!pointer) return;
  for (size_t i = 0; i < MOST_BLOCKS; i++) {
    const size_t inside = (size_t)((const unsigned char *)pointer - blocks[i].data);
    if (blocks[i].pages && inside <= blocks[i].bytes) return;
  }
  fprintf(stderr, "emulated CUDA: %s was handed the host's %p\n", name, pointer);
  abort();
}

/* ---- The table ------------------------------------------------------------------------------- */

static tdm_cuda_code launch(const tdm_cuda_launch *wanted) {
  if (!wanted->call || wanted->blocks == 0 || wanted->blocks > INT32_MAX || wanted->threads == 0 ||
      wanted->threads > 1024) {
    return TDM_CUDA_INVALID_VALUE;
  }
  for (size_t i = 0; i < wanted->argument_count; i++) {
    if ((wanted->pointer_arguments >> i & 1) == 0) continue;
    void *pointer;
    memcpy(&pointer, wanted->arguments[i], sizeof pointer);
    require_live(pointer, wanted->name);
  }
  emulated_run_blocks(wanted->function, wanted->arguments, wanted->call, wanted->name,
                      wanted->blocks, wanted->threads);
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code copy_async(void *to, const void *from, size_t bytes,
                                tdm_cuda_direction direction, tdm_cuda_stream stream) {
  (void)stream;
  if (direction != TDM_CUDA_ON_DEVICE) return TDM_CUDA_INVALID_VALUE;
  memcpy(to, from, bytes); /* never overlapping */
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code fill_async(void *to, int byte, size_t bytes, tdm_cuda_stream stream) {
  (void)stream;
  memset(to, byte, bytes);
  return TDM_CUDA_SUCCESS;
}

static const char *error_text(tdm_cuda_code code) {
  (void)code;
  return "refused by the test's table";
}

struct tdm_cuda_blas_opaque {
  int unused;
};

static tdm_cuda_code blas_create(tdm_cuda_blas *out, bool tf32, const char **out_reason) {
  (void)tf32;
  static struct tdm_cuda_blas_opaque only;
  *out = &only;
  *out_reason = NULL;
  return TDM_CUDA_SUCCESS;
}

static tdm_cuda_code blas_set_stream(tdm_cuda_blas blas, tdm_cuda_stream stream) {
  (void)blas;
  (void)stream;
  return TDM_CUDA_SUCCESS;
}

static double element(const tdm_cuda_product *product, const void *matrix, int64_t index) {
  return product->dtype == TDM_FLOAT64 ? ((const double *)matrix)[index]
                                       : (double)((const float *)matrix)[index];
}

static double row_by_column(const tdm_cuda_product *product, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < product->k; k++) {
    const int64_t a = product->transpose_a ? k * product->a_stride + i : i * product->a_stride + k;
    const int64_t b = product->transpose_b ? j * product->b_stride + k : k * product->b_stride + j;
    sum += element(product, product->a, a) * element(product, product->b, b);
  }
  return sum;
}

/* cuBLAS refuses strides below a stored row's length, and below 1. */
static bool strides_fit(const tdm_cuda_product *product) {
  return product->a_stride >= (product->transpose_a ? product->m : product->k) &&
         product->b_stride >= (product->transpose_b ? product->k : product->n) &&
         product->c_stride >= product->n && product->a_stride > 0 && product->b_stride > 0 &&
         product->m > 0 && product->n > 0 && product->k > 0;
}

static tdm_cuda_code blas_product(tdm_cuda_blas blas, const tdm_cuda_product *product) {
  (void)blas;
  if (!strides_fit(product)) return TDM_CUDA_BLAS;
  require_live(product->a, "a product");
  require_live(product->b, "a product");
  require_live(product->c, "a product");
  for (int64_t i = 0; i < product->m; i++) {
    for (int64_t j = 0; j < product->n; j++) {
      const int64_t c = i * product->c_stride + j;
      double sum = row_by_column(product, i, j);
      if (product->beta != 0) sum += product->beta * element(product, product->c, c);
      if (product->dtype == TDM_FLOAT64) {
        ((double *)product->c)[c] = sum;
      } else {
        ((float *)product->c)[c] = (float)sum;
      }
    }
  }
  return TDM_CUDA_SUCCESS;
}

/* ---- The lane -------------------------------------------------------------------------------- */

static direct_block *report_block;

tdm_cuda_kernel_stream *direct_cuda_stream(void) {
  static const tdm_cuda_api api = {.error_text = error_text,
                                   .copy_async = copy_async,
                                   .fill_async = fill_async,
                                   .launch = launch,
                                   .blas_create = blas_create,
                                   .blas_set_stream = blas_set_stream,
                                   .blas_product = blas_product};
  static tdm_cuda_blas blas;
  static tdm_cuda_kernel_stream lane;
  lane = (tdm_cuda_kernel_stream){
      .api = &api, .blas = &blas, .report = (tdm_cuda_report *)(void *)report_block->data};
  return &lane;
}

void direct_cuda_report_clear(void) {
  if (!report_block) report_block = direct_block_create(sizeof(tdm_cuda_report));
  ((tdm_cuda_report *)(void *)report_block->data)->kind = TDM_CUDA_REPORT_NONE;
}

tdm_status direct_cuda_report_status(void) {
  return tdm_cuda_report_read((const tdm_cuda_report *)(const void *)report_block->data);
}
