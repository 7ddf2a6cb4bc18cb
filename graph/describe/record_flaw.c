/* Checks of records. Invariant: with a record that passes, no pass reads beyond its struct, its
 * attributes or the operands of its node. */
#include "graph/describe/record_flaw.h"

#include "graph/describe/gradient_of.h"

static bool overwrites_any(const tdm_operation *operation, size_t from_input) {
  bool any = false;
  for (size_t i = 0; i < TDM_KERNEL_MAX_OUTPUTS; i++)
    any |= operation->overwrites[i] > from_input;
  return any;
}

static bool holds_chunk(const tdm_operation *operation) {
  const size_t end = operation->chunk_at - 1u + sizeof(tdm_chunk);
  return operation->chunk_at == 0 || end <= operation->attribute_bytes;
}

static const char *own_flaw(const tdm_operation *operation) {
  /* The fields up to this one belong to the oldest version of the struct. */
  if (operation->struct_size < offsetof(tdm_operation, has_effects))
    return "its struct_size is to be sizeof(tdm_operation)";
  if (!operation->name) return "it lacks a name";
  if (!operation->infer) return "it lacks a shape rule";
  if (overwrites_any(operation, operation->max_inputs))
    return "it overwrites an input that it does not take";
  if (operation->is_view && overwrites_any(operation, 0)) return "it overwrites, and is a view";
  if (operation->is_view && operation->min_inputs == 0) return "it is a view, perhaps of nothing";
  if (!holds_chunk(operation)) return "its chunk_at is not within its attributes";
  return NULL;
}

/* Checks a stand-in, whose node has this operation's inputs and attributes. */
static const char *stand_in_flaw(const tdm_operation *operation, const tdm_operation *in_place) {
  if (!in_place || in_place == operation) return NULL;
  if (own_flaw(in_place)) return own_flaw(in_place);
  if (in_place->attribute_bytes != operation->attribute_bytes)
    return "its replacement has other attributes";
  if (in_place->min_inputs > operation->min_inputs || in_place->max_inputs < operation->max_inputs)
    return "its replacement takes other inputs";
  return NULL;
}

const char *tdm_record_flaw(const tdm_operation *operation) {
  const char *flaw = own_flaw(operation);
  if (!flaw) flaw = stand_in_flaw(operation, operation->when_training);
  if (!flaw && TDM_OPERATION_HAS(operation, when_differentiated))
    flaw = stand_in_flaw(operation, operation->when_differentiated);
  const tdm_operation *gradient = flaw ? NULL : tdm_function_gradient(operation);
  if (gradient && gradient->attribute_bytes > operation->attribute_bytes)
    flaw = "the operation of its gradient has attributes that it does not have";
  return flaw;
}
