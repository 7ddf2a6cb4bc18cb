/* Files that appear completely or not at all: killed saves, simultaneous saves, symbolic links.
 * Invariant: the file always has the contents of one save, and the next save deletes the remains of
 * killed ones. */
#define _GNU_SOURCE /* usleep, symlink, mkfifo */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/whole_file.h"

enum { PATH_BYTES = 512, CONTENT_BYTES = 64 * 1024, PIECES = 16, KILLS = 100, WRITERS = 4 };

static tdm_allocator allocator;
static char content[CONTENT_BYTES];

static const char *path_of(char *path, const char *name) {
  const char *folder = getenv("TEST_TMPDIR");
  assert_true(snprintf(path, PATH_BYTES, "%s/%s", folder ? folder : ".", name) < PATH_BYTES);
  return path;
}

/* Entries of the folder that begin so. */
static int count_entries(const char *folder, const char *begin) {
  DIR *stream = opendir(folder);
  assert_non_null(stream);
  int count = 0;
  for (struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream))
    count += strncmp(entry->d_name, begin, strlen(begin)) == 0;
  (void)closedir(stream);
  return count;
}

static int count_left(const char *begin) {
  char folder[PATH_BYTES];
  return count_entries(path_of(folder, ""), begin);
}

/* A file of one letter throughout, in several writes. */
static tdm_status save_letter(const char *path, char letter) {
  tdm_whole_file *file;
  memset(content, letter, sizeof content);
  tdm_status status = tdm_whole_file_create(&allocator, path, &file);
  for (int i = 0; i < PIECES && status == TDM_OK; i++)
    status = tdm_whole_file_write(file, content, sizeof content / PIECES);
  if (status == TDM_OK) status = tdm_whole_file_commit(file);
  tdm_whole_file_destroy(file);
  return status;
}

/* Returns the letter that fills the whole file. */
static char whole_letter(const char *path) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(content, 1, sizeof content, file), sizeof content);
  assert_int_equal(fgetc(file), EOF);
  (void)fclose(file);
  for (size_t i = 1; i < sizeof content; i++)
    if (content[i] != content[0]) fail_msg("byte %zu is %c after %c", i, content[i], content[0]);
  return content[0];
}

static pid_t start_writer(const char *path, char letter) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child > 0) return child;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends the child if the test ends early */
  while (save_letter(path, letter) == TDM_OK) {
  }
  _exit(1);
}

static void end_writer(pid_t child) {
  int ended;
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_true(WIFSIGNALED(ended)); /* every save before it was completed */
}

static void killed_saves_leave_the_old_file_and_no_heap(void **state) {
  (void)state;
  char path[PATH_BYTES];
  path_of(path, "killed");
  assert_int_equal(save_letter(path, 'a'), TDM_OK);
  int left_once = 0;
  for (int i = 0; i < KILLS; i++) {
    const pid_t child = start_writer(path, (char)('b' + i % 20));
    (void)usleep((useconds_t)(tdm_hash_mix(1, (uint64_t)i) % 5000));
    end_writer(child);
    (void)whole_letter(path);
    const int left = count_left(".killed.tandem-");
    assert_in_range(left, 0, 1);
    left_once += left;
  }
  print_message("%d of %d kills left a file for the next save to remove\n", left_once, KILLS);
  assert_int_equal(save_letter(path, 'z'), TDM_OK);
  assert_int_equal(whole_letter(path), 'z');
  assert_int_equal(count_left(".killed.tandem-"), 0);
  assert_int_equal(count_left("killed"), 1);
}

static void writers_beside_one_another_are_killed_too(void **state) {
  (void)state;
  char path[PATH_BYTES];
  path_of(path, "shared");
  assert_int_equal(save_letter(path, 'a'), TDM_OK);
  for (int i = 0; i < KILLS / WRITERS; i++) {
    pid_t children[WRITERS];
    for (int w = 0; w < WRITERS; w++)
      children[w] = start_writer(path, (char)('b' + w));
    (void)usleep((useconds_t)(tdm_hash_mix(2, (uint64_t)i) % 20000));
    for (int w = 0; w < WRITERS; w++)
      end_writer(children[w]);
    (void)whole_letter(path);
    assert_in_range(count_left(".shared.tandem-"), 0, WRITERS);
  }
  assert_int_equal(save_letter(path, 'z'), TDM_OK);
  assert_int_equal(count_left(".shared.tandem-"), 0);
}

/* A file that is being written is not removed, by this process or another. */
static void a_save_under_way_is_left_alone(void **state) {
  (void)state;
  char path[PATH_BYTES];
  path_of(path, "busy");
  tdm_whole_file *first;
  assert_int_equal(tdm_whole_file_create(&allocator, path, &first), TDM_OK);
  assert_int_equal(tdm_whole_file_write(first, "first", 5), TDM_OK);
  assert_int_equal(save_letter(path, 'b'), TDM_OK);
  assert_int_equal(whole_letter(path), 'b');
  assert_int_equal(count_left(".busy.tandem-"), 1);
  assert_int_equal(tdm_whole_file_commit(first), TDM_OK);
  tdm_whole_file_destroy(first);
  struct stat about;
  assert_int_equal(stat(path, &about), 0);
  assert_int_equal(about.st_size, 5);
  assert_int_equal(count_left(".busy.tandem-"), 0);
}

/* A child that was forked in the middle of a save holds its descriptor, but not up the others. */
static void a_forked_child_keeps_no_name(void **state) {
  (void)state;
  char path[PATH_BYTES];
  path_of(path, "forked");
  tdm_whole_file *file;
  assert_int_equal(tdm_whole_file_create(&allocator, path, &file), TDM_OK);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true)
      (void)pause();
  }
  assert_int_equal(tdm_whole_file_commit(file), TDM_OK);
  tdm_whole_file_destroy(file);
  for (int i = 0; i < 40; i++)
    assert_int_equal(save_letter(path, 'c'), TDM_OK);
  assert_int_equal(count_left(".forked.tandem-"), 0);
  end_writer(child);
}

static void a_save_that_is_given_up_leaves_nothing(void **state) {
  (void)state;
  char path[PATH_BYTES];
  path_of(path, "given_up");
  tdm_whole_file *file;
  assert_int_equal(tdm_whole_file_create(&allocator, path, &file), TDM_OK);
  assert_int_equal(tdm_whole_file_write(file, "half", 4), TDM_OK);
  tdm_whole_file_destroy(file);
  assert_int_equal(count_left("given_up"), 0);
  assert_int_equal(count_left(".given_up"), 0);
}

static void more_saves_at_once_than_there_are_names(void **state) {
  (void)state;
  enum { NAMES = 32 };
  char path[PATH_BYTES];
  path_of(path, "crowded");
  tdm_whole_file *files[NAMES], *one_more;
  for (int i = 0; i < NAMES; i++)
    assert_int_equal(tdm_whole_file_create(&allocator, path, &files[i]), TDM_OK);
  assert_int_equal(tdm_whole_file_create(&allocator, path, &one_more), TDM_IO);
  assert_null(one_more);
  assert_non_null(strstr(tdm_last_message(), ".crowded.tandem-31 are taken"));
  for (int i = 0; i < NAMES; i++)
    tdm_whole_file_destroy(files[i]);
  assert_int_equal(save_letter(path, 'd'), TDM_OK);
  assert_int_equal(count_left(".crowded.tandem-"), 0);
}

/* A name as long as names may be leaves no room for a suffix. */
static void the_longest_name_is_saved(void **state) {
  (void)state;
  char path[PATH_BYTES];
  char name[256];
  memset(name, 'n', 255);
  name[255] = '\0';
  path_of(path, name);
  assert_int_equal(save_letter(path, 'l'), TDM_OK);
  assert_int_equal(whole_letter(path), 'l');
  assert_int_equal(count_left(".nnn"), 0);
  assert_int_equal(unlink(path), 0);
}

/* ---- Symbolic links -------------------------------------------------------------------------- */

static bool is_link(const char *path) {
  struct stat about;
  assert_int_equal(lstat(path, &about), 0);
  return S_ISLNK(about.st_mode);
}

static void links_stay_and_their_targets_are_written(void **state) {
  (void)state;
  char folder[PATH_BYTES], target[PATH_BYTES], link[PATH_BYTES], again[PATH_BYTES];
  assert_int_equal(mkdir(path_of(folder, "links"), 0777), 0);
  path_of(target, "links/target");
  path_of(link, "link");
  path_of(again, "links/again");
  assert_int_equal(symlink("links/again", link), 0); /* relative to the folder of the link */
  assert_int_equal(symlink(target, again), 0);
  assert_int_equal(save_letter(link, 'a'), TDM_OK); /* the target is made */
  assert_int_equal(whole_letter(target), 'a');
  assert_int_equal(chmod(target, 0640), 0);
  assert_int_equal(save_letter(link, 'b'), TDM_OK); /* and replaced */
  assert_true(is_link(link) && is_link(again) && !is_link(target));
  assert_int_equal(whole_letter(target), 'b');
  struct stat about;
  assert_int_equal(stat(target, &about), 0);
  assert_int_equal(about.st_mode & 07777, 0640);
  assert_int_equal(count_entries(folder, ".target"), 0);
}

static void assert_refused(const char *path, const char *message) {
  assert_int_equal(save_letter(path, 'r'), TDM_IO);
  if (!strstr(tdm_last_message(), message)) fail_msg("%s", tdm_last_message());
}

static void what_is_no_file_is_refused(void **state) {
  (void)state;
  char path[PATH_BYTES];
  path_of(path, "loop");
  assert_int_equal(symlink("loop", path), 0);
  assert_refused(path, strerror(ELOOP));
  path_of(path, "pipe");
  assert_int_equal(mkfifo(path, 0666), 0);
  assert_refused(path, "no regular file");
  path_of(path, "to_pipe");
  assert_int_equal(symlink("pipe", path), 0);
  assert_refused(path, "no regular file");
  path_of(path, "to_nowhere");
  assert_int_equal(symlink("nowhere/file", path), 0);
  assert_refused(path, strerror(ENOENT));
  assert_refused("/dev/null", "no regular file");
  assert_int_equal(save_letter("", 'r'), TDM_INVALID_ARGUMENT);
  assert_non_null(strstr(tdm_last_message(), "no path was given"));
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", ends[1]);
  assert_refused(path, "no regular file");
  FILE *nameless = tmpfile();
  assert_non_null(nameless);
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(nameless));
  assert_refused(path, "without a name");
  (void)fclose(nameless);
  char longest[5000];
  memset(longest, '/', sizeof longest);
  longest[sizeof longest - 1] = '\0';
  assert_refused(longest, strerror(ENAMETOOLONG));
}

int main(void) {
  allocator = tdm_allocator_default();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_saves_leave_the_old_file_and_no_heap),
      cmocka_unit_test(writers_beside_one_another_are_killed_too),
      cmocka_unit_test(a_save_under_way_is_left_alone),
      cmocka_unit_test(a_forked_child_keeps_no_name),
      cmocka_unit_test(a_save_that_is_given_up_leaves_nothing),
      cmocka_unit_test(more_saves_at_once_than_there_are_names),
      cmocka_unit_test(the_longest_name_is_saved),
      cmocka_unit_test(links_stay_and_their_targets_are_written),
      cmocka_unit_test(what_is_no_file_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
