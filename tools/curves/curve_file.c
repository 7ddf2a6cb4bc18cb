/* See curve_file.h. */
#include "tools/curves/curve_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 6, LINE_BYTES = 512 };
enum { STEP, EPOCH, LOSS, SCORE, RATE };
static const double LARGEST_STEP = 9e15; /* a whole number, as a double */

/* Cuts a line at its tabs; false unless it has as many fields as it should. */
static bool cut(char *line, char *fields[FIELDS]) {
  char *at = line;
  for (int i = 0; i < FIELDS; i++) {
    if (!at) return false;
    fields[i] = at;
    char *tab = strchr(at, '\t');
    if (tab) *tab = '\0';
    at = tab ? tab + 1 : NULL;
  }
  return !at;
}

/* Reads a number, or, if may_lack, "-", which gives NaN. */
static bool read_number(const char *text, bool may_lack, double *out_number) {
  *out_number = NAN;
  if (may_lack && strcmp(text, "-") == 0) return true;
  char *end = NULL;
  *out_number = strtod(text, &end);
  return end != text && *end == '\0' && !isnan(*out_number);
}

static bool read_point(char *line, curve_point *out_point) {
  char *fields[FIELDS];
  double step;
  if (!cut(line, fields) || !read_number(fields[STEP], false, &step)) return false;
  if (!(step >= 0 && step < LARGEST_STEP && step == floor(step))) return false;
  out_point->step = (int64_t)step;
  return read_number(fields[EPOCH], false, &out_point->epoch) && isfinite(out_point->epoch) &&
         read_number(fields[LOSS], true, &out_point->loss) &&
         read_number(fields[SCORE], true, &out_point->score) &&
         read_number(fields[RATE], false, &out_point->rate);
}

static bool read_heading(char *line, curve *out_curve) {
  char *fields[FIELDS];
  if (!cut(line, fields) || strcmp(fields[STEP], "step") != 0 ||
      strcmp(fields[EPOCH], "epoch") != 0 || strcmp(fields[LOSS], "loss") != 0)
    return false;
  (void)snprintf(out_curve->score_name, CURVE_NAME, "%s", fields[SCORE]);
  (void)snprintf(out_curve->rate_name, CURVE_NAME, "%s", fields[RATE]);
  return true;
}

static tdm_status add(curve *to, const curve_point *point, size_t *capacity) {
  if (to->point_count == *capacity) {
    const size_t more = *capacity ? 2 * *capacity : 64;
    curve_point *points = realloc(to->points, more * sizeof *points);
    if (!points) return tdm_fail(TDM_OUT_OF_MEMORY, "%zu points of a curve", more);
    to->points = points;
    *capacity = more;
  }
  to->points[to->point_count++] = *point;
  return TDM_OK;
}

static tdm_status read_lines(const char *path, FILE *file, curve *out_curve) {
  char line[LINE_BYTES];
  size_t capacity = 0;
  for (int number = 1; fgets(line, sizeof line, file); number++) {
    char *end = strchr(line, '\n');
    if (!end && feof(file) && number > 1) break;
    if (end) *end = '\0';
    curve_point point;
    if (!end || !(number == 1 ? read_heading(line, out_curve) : read_point(line, &point)))
      return tdm_fail(TDM_CORRUPT_DATA, "%s: line %d is none that an example writes by --log", path,
                      number);
    if (number == 1) continue;
    const tdm_status status = add(out_curve, &point, &capacity);
    if (status != TDM_OK) return status;
  }
  if (ferror(file)) return tdm_fail(TDM_IO, "%s: %s", path, strerror(errno));
  if (out_curve->point_count > 0) return TDM_OK;
  return tdm_fail(TDM_CORRUPT_DATA, "%s has no line of a training", path);
}

tdm_status curve_read(const char *path, curve *out_curve) {
  *out_curve = (curve){.points = NULL};
  const char *slash = strrchr(path, '/');
  (void)snprintf(out_curve->name, CURVE_NAME, "%s", slash ? slash + 1 : path);
  char *dot = strrchr(out_curve->name, '.');
  if (dot && dot > out_curve->name) *dot = '\0';
  FILE *file = fopen(path, "re");
  if (!file) return tdm_fail(TDM_IO, "%s: %s", path, strerror(errno));
  const tdm_status status = read_lines(path, file, out_curve);
  (void)fclose(file);
  if (status != TDM_OK) curve_deinit(out_curve);
  return status;
}

void curve_deinit(curve *freed) {
  free(freed->points);
  *freed = (curve){.points = NULL};
}

const curve_point *curve_last_score(const curve *of) {
  for (size_t i = of->point_count; i-- > 0;)
    if (!isnan(of->points[i].score)) return &of->points[i];
  return NULL;
}

const curve_point *curve_last_loss(const curve *of) {
  for (size_t i = of->point_count; i-- > 0;)
    if (!isnan(of->points[i].loss)) return &of->points[i];
  return NULL;
}
