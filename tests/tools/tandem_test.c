/* The tandem command as `bazel run` starts it: in another folder than the user's, which the
 * environment names and relative paths refer to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tandem/tandem.h"
#include "tests/examples/program.h"

static char command[PATH_MAX];
static char machine[PATH_MAX];

static void relative_paths_are_the_users(void **state) {
  (void)state;
  char folder[PATH_MAX];
  (void)snprintf(folder, sizeof folder, "%s", machine);
  char *name = strrchr(folder, '/');
  assert_non_null(name);
  *name++ = '\0';
  char line[3 * PATH_MAX + 128];
  (void)snprintf(line, sizeof line,
                 "cd / && BUILD_WORKING_DIRECTORY='%s' '%s' forecast --machine %s --devices 2",
                 folder, command, name);
  outcome ended = program_run_as(line);
  if (ended.exit_code != 0 || !strstr(ended.output, " on 2 of "))
    fail_msg("%s ended with %d:\n%s", line, ended.exit_code, ended.output);
  outcome_free(&ended);
}

static void a_folder_that_is_gone_is_named(void **state) {
  (void)state;
  char line[PATH_MAX + 128];
  (void)snprintf(line, sizeof line, "BUILD_WORKING_DIRECTORY=/is/not/there '%s' forecast", command);
  outcome ended = program_run_as(line);
  assert_int_equal(ended.exit_code, 1);
  assert_non_null(strstr(ended.output, "/is/not/there"));
  outcome_free(&ended);
}

/* Runs the command, which must have the exit code; freed by outcome_free. */
static outcome run(const char *arguments, int exit_code) {
  char line[PATH_MAX + 512];
  (void)snprintf(line, sizeof line, "TANDEM_LINKS=off '%s' %s", command, arguments);
  outcome ended = program_run_as(line);
  if (ended.exit_code != exit_code)
    fail_msg("%s ended with %d:\n%s", arguments, ended.exit_code, ended.output);
  return ended;
}

static void must_print(const char *arguments, int exit_code, const char *const *texts) {
  outcome ended = run(arguments, exit_code);
  for (size_t i = 0; texts[i]; i++)
    if (!strstr(ended.output, texts[i]))
      fail_msg("%s: no '%s' in:\n%s", arguments, texts[i], ended.output);
  outcome_free(&ended);
}

static void commands_are_listed(void **state) {
  (void)state;
  must_print("--help", 0, (const char *const[]){"devices", "forecast", "inspect", "launch", NULL});
  must_print("", 2, (const char *const[]){"devices", NULL});
  must_print("device", 2, (const char *const[]){"unknown command 'device'", "devices", NULL});
  outcome ended = run("--version", 0);
  char expected[64];
  (void)snprintf(expected, sizeof expected, "tandem %s\n", tdm_version());
  assert_string_equal(ended.output, expected);
  outcome_free(&ended);
}

/* OpenMP's runtime then binds the program's first thread to one processing unit. */
static void the_binding_of_openmp_takes_no_processors(void **state) {
  (void)state;
  static const char *const settings[] = {"OMP_PROC_BIND=true", "OMP_PLACES=threads"};
  static const char *const told[] = {"devices --json | grep -o '\"threads\":[0-9]*'",
                                     "doctor | grep '^[a-z]* *processors'"};
  for (size_t i = 0; i < sizeof settings / sizeof *settings * 2; i++) {
    outcome unbound = run(told[i % 2], 0);
    char line[PATH_MAX + 128];
    (void)snprintf(line, sizeof line, "TANDEM_LINKS=off %s '%s' %s", settings[i / 2], command,
                   told[i % 2]);
    outcome bound = program_run_as(line);
    assert_int_equal(bound.exit_code, 0);
    assert_string_equal(bound.output, unbound.output);
    outcome_free(&bound);
    outcome_free(&unbound);
  }
}

static void devices_and_links_are_told(void **state) {
  (void)state;
  must_print("devices", 0,
             (const char *const[]){"cpu:0", "sim:0", "cpu:0    sim:0    pinned", "pageable",
                                   "modelled", "hwloc           found", "libtandem_cuda ",
                                   "openmpi ", NULL});
  must_print("devices --json", 0,
             (const char *const[]){"\"name\":\"cpu:0\"", "\"memory_bytes\":", "\"links\": [",
                                   "\"from\":\"sim:0\",\"to\":\"cpu:0\",\"pinned\":true",
                                   "\"name\":\"jansson\",\"use\":\"JSON\",\"found\":true", NULL});
  must_print("devices --all", 2, (const char *const[]){"--all", NULL});
  must_print("devices --help", 0, (const char *const[]){"--json", NULL});
  must_print("devices > /dev/full", 1, (const char *const[]){"cannot write", NULL});
}

/* Checks the tables that help prints: every command, and an option of one. */
static void the_manual_and_the_completion_know_all(void **state) {
  (void)state;
  must_print("--help > /dev/full", 1, (const char *const[]){"cannot write", NULL});
  must_print("--manual > /dev/full", 1, (const char *const[]){"cannot write", NULL});
  must_print("--completion > /dev/full", 1, (const char *const[]){"cannot write", NULL});
  must_print("bench --help > /dev/full", 1, (const char *const[]){"cannot write", NULL});
  must_print("--manual", 0,
             (const char *const[]){".SH BENCH TRANSFER", ".SH DEVICES", ".SH TRACE",
                                   ".B \\-\\-calibrate", ".B tandem inspect [OPTION...] FILE",
                                   NULL});
  static const struct {
    const char *words;
    const char *completed;
  } cases[] = {{"tandem ins", "inspect"},
               {"tandem devices --cal", "--calibrate"},
               {"tandem plan --d", "--dot"},
               {"tandem ben", "bench"},
               {"tandem bench tr", "transfer"},
               {"tandem bench overhead --pl", "--planning"},
               {"tandem launch --h", "--hostfile\n--help"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[PATH_MAX + 256];
    (void)snprintf(line, sizeof line,
                   "bash -c 'eval \"$(\"$1\" --completion)\"; COMP_WORDS=($2); "
                   "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tandem; "
                   "printf \"%%s\\n\" \"${COMPREPLY[@]}\"' - '%s' '%s'",
                   command, cases[i].words);
    outcome ended = program_run_as(line);
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "%s\n", cases[i].completed);
    if (strcmp(ended.output, wanted) != 0)
      fail_msg("%s: %s, not %s", cases[i].words, ended.output, wanted);
    outcome_free(&ended);
  }
}

#define SMALL_COPIES "bench transfer --sizes 1K,4K --samples 3 --case host_to_device "

/* An independent JSON reader accepts the output. */
static void json_is_json(void **state) {
  (void)state;
  char line[4 * PATH_MAX];
  (void)snprintf(line, sizeof line,
                 "'%s' devices --json | python3 -c 'import json, sys; "
                 "told = json.load(sys.stdin); print(len(told[\"devices\"]) >= 2, "
                 "all(d[\"free_bytes\"] <= d[\"memory_bytes\"] for d in told[\"devices\"]))'",
                 command);
  outcome ended = program_run_as(line);
  assert_string_equal(ended.output, "True True\n");
  outcome_free(&ended);
  char forecasts[2 * PATH_MAX];
  (void)snprintf(forecasts, sizeof forecasts, "forecast --machine %s --devices 2 --json", machine);
  char ranks[2 * PATH_MAX];
  (void)snprintf(ranks, sizeof ranks, "forecast --machine %s --ranks 4 --json", machine);
  const char *const others[] = {"doctor --json", forecasts, ranks, SMALL_COPIES "--json",
                                "bench overhead --planning --layers 100 --json"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    (void)snprintf(line, sizeof line,
                   "'%s' %s | python3 -c 'import json, sys; told = json.load(sys.stdin); "
                   "print(list(told)[0] == \"version\", max(len(told[key]) for key in told "
                   "if isinstance(told[key], list)) > 2)'",
                   command, others[i]);
    ended = program_run_as(line);
    if (strcmp(ended.output, "True True\n") != 0) fail_msg("%s: %s", line, ended.output);
    outcome_free(&ended);
  }
}

static void the_doctor_tells_what_is_wrong(void **state) {
  (void)state;
  must_print("doctor", 0,
             (const char *const[]){"fine     a run", "processors", "NUMA", "links", "openmpi",
                                   "mpich", "cuda", " 0 errors", NULL});
  must_print("doctor --help", 0, (const char *const[]){"status is 1 if", NULL});
  must_print("doctor --all", 2, (const char *const[]){"--all", NULL});
  must_print("doctor > /dev/full", 1, (const char *const[]){"cannot write", NULL});
  char line[PATH_MAX + 128];
  static const struct {
    const char *set;
    const char *found;
    int exit_code;
  } cases[] = {
      {"TANDEM_DEVICE=sim=2", "TANDEM_DEVICE is nothing that the library reads; was TANDEM_DEVICES",
       0},
      {"TANDEM_SOMETHING_ELSE=1", "TANDEM_SOMETHING_ELSE is nothing that the library reads\n", 0},
      {"TANDEM_DEVICES=sim=2", "TANDEM_DEVICES is 'sim=2'", 0},
      {"TANDEM_DEVICES=sim=many", "error    a context", 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    (void)snprintf(line, sizeof line, "%s '%s' doctor", cases[i].set, command);
    outcome ended = program_run_as(line);
    if (ended.exit_code != cases[i].exit_code || !strstr(ended.output, cases[i].found))
      fail_msg("%s ended with %d:\n%s", line, ended.exit_code, ended.output);
    outcome_free(&ended);
  }
}

/* Runs the command on a terminal. */
static outcome run_on_terminal(const char *arguments) {
  char line[PATH_MAX + 512];
  (void)snprintf(line, sizeof line,
                 "TANDEM_LINKS=off NO_COLOR= python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "
                 "'%s' %s",
                 command, arguments);
  return program_run_as(line);
}

/* A model with placed blocks is placed over the devices of its forecast. */
static void forecasts_are_of_what_is_asked_for(void **state) {
  (void)state;
  static const char text[] =
      "{\"title\": \"t\", \"sources\": [\"this test\"], \"devices_per_host\": 8, \"device\": "
      "{\"model\": \"d\", \"flops_per_second\": {\"float32\": 1e13}, \"memory_bytes_per_second\": "
      "1e12}, \"host_link\": {\"latency_us\": 8, \"bytes_per_second\": 1e10}}";
  write_file("free.json", text, sizeof text - 1);
  outcome ended = run("forecast --machine free.json --model gpt-7b --batch 16 --devices 4", 0);
  static const char *const wanted[] = {"16 rows on 4 of 8 devices", "paper:0 compute",
                                       "paper:3 compute"};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!strstr(ended.output, wanted[i])) fail_msg("no %s in %s", wanted[i], ended.output);
  outcome_free(&ended);
  must_print("forecast", 2, (const char *const[]){"missing --machine FILE", NULL});
  must_print("forecast --machine free.json --model gpt", 2,
             (const char *const[]){"--model takes one of main, mlp, embedding, gpt-7b", NULL});
}

static void copies_are_measured(void **state) {
  (void)state;
  must_print("bench --help", 0, (const char *const[]){"bench overhead", "bench transfer", NULL});
  must_print("bench", 2, (const char *const[]){"bench overhead", "bench transfer", NULL});
  must_print("bench copies", 2,
             (const char *const[]){"unknown command 'bench copies'", "bench transfer", NULL});
  must_print("bench transfer --help", 0, (const char *const[]){"--save FILE", "--list", NULL});
  must_print("bench transfer --list", 0,
             (const char *const[]){"host_to_device ", "plain_memcpy", NULL});
  must_print("bench transfer --case host_to_moon", 2,
             (const char *const[]){"no case \"host_to_moon\"", NULL});
  must_print("bench transfer --model", 2, (const char *const[]){"--model", NULL});
  must_print("bench transfer --device sim:77", 1, (const char *const[]){"sim:77", NULL});
  must_print(SMALL_COPIES "--memory pinned,pageable --save copies.csv", 0,
             (const char *const[]){"host_to_device, pinned memory", "(1 of 2, about ", "(2 of 2",
                                   "4 KiB", NULL});
  outcome saved = program_run_as("cut -d, -f1,2,6 copies.csv");
  assert_string_equal(saved.output, "case,memory,bytes\n"
                                    "host_to_device,pageable,1024\n"
                                    "host_to_device,pageable,4096\n"
                                    "host_to_device,pinned,1024\n"
                                    "host_to_device,pinned,4096\n");
  outcome_free(&saved);
  outcome shown = run_on_terminal(SMALL_COPIES);
  if (!strstr(shown.output, "\033[1mhost_to_device") || !strstr(shown.output, ", 5 left"))
    fail_msg("on a terminal: %s", shown.output);
  outcome_free(&shown);
}

static void overheads_are_measured(void **state) {
  (void)state;
  must_print("bench overhead --planning --layers 100", 0,
             (const char *const[]){"planning a node, 2 devices", "with kernels, 4 devices", NULL});
  must_print("bench overhead --layers 1", 2, (const char *const[]){"--layers", NULL});
  outcome ended = run("bench overhead --runs", 0);
  assert_non_null(strstr(ended.output, "\nchain of 100 "));
  assert_null(strstr(ended.output, "planning"));
  outcome_free(&ended);
}

/* Colours are used only on a terminal, and never if NO_COLOR is set. */
static void colours_are_for_terminals(void **state) {
  (void)state;
  static const struct {
    const char *set;
    bool coloured;
  } cases[] = {{"NO_COLOR=", true}, {"NO_COLOR=1", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char line[PATH_MAX + 256];
    (void)snprintf(line, sizeof line,
                   "%s python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' '%s' doctor",
                   cases[i].set, command);
    outcome ended = program_run_as(line);
    if (!strstr(ended.output, "a run")) fail_msg("%s: %s", line, ended.output);
    assert_int_equal(strstr(ended.output, "\033[32mfine") != NULL, cases[i].coloured);
    outcome_free(&ended);
  }
  outcome ended = run("doctor", 0);
  assert_null(strchr(ended.output, '\033'));
  outcome_free(&ended);
}

static void a_file_is_inspected(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  const float elements[] = {1, -2, 0.5F, 4, 5, 6};
  tdm_tensor *weight = tdm_tensor_from(context, TDM_FLOAT32, tdm_shape_of(2, 2, 3), elements);
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  assert_int_equal(tdm_tensor_list_add(list, "a.weight", weight), TDM_OK);
  assert_int_equal(tdm_safetensors_save(list, "some.safetensors"), TDM_OK);
  tdm_tensor_list_release(list);
  tdm_tensor_release(weight);
  tdm_context_release(context);
  must_print("inspect some.safetensors", 0,
             (const char *const[]){"a.weight", "float32", "24", "[2, 3]",
                                   "1 tensors, 6 elements, 24 bytes", NULL});
  must_print("inspect some.safetensors --tensor a.weight", 0,
             (const char *const[]){"tensor([[ 1.0000, -2.0000,  0.5000],", NULL});
  must_print("inspect some.safetensors --tensor b", 1,
             (const char *const[]){"some.safetensors has no tensor b", NULL});
  must_print("inspect nowhere", 1, (const char *const[]){"nowhere", "No such file", NULL});
  must_print("inspect", 2, (const char *const[]){"missing FILE", NULL});
  must_print(
      "inspect some.safetensors --json", 0,
      (const char *const[]){"\"name\":\"a.weight\",\"dtype\":\"float32\",\"shape\":[2,3]", NULL});
  must_print("inspect some.safetensors --json --tensor a.weight", 2,
             (const char *const[]){"not both", NULL});
  must_print("inspect some.safetensors other", 2, (const char *const[]){"other", NULL});
  must_print("inspect --all some", 2, (const char *const[]){"--all", NULL});
  must_print("inspect --help", 0, (const char *const[]){"--tensor NAME", NULL});
}

/* Tensors of other programs' dtypes are listed; only their elements cannot be printed. */
static void tensors_of_every_dtype_are_listed(void **state) {
  (void)state;
  static const char header[] =
      "{\"w8\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,3],\"data_offsets\":[0,6]},"
      "\"w4\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[6,8]},"
      "\"deep\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[8,10]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[10,12]}}";
  const uint64_t size = sizeof header - 1;
  FILE *file = fopen("foreign.safetensors", "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(&size, 8, 1, file), 1);
  assert_int_equal(fwrite(header, 1, size, file), size);
  assert_int_equal(fwrite("\1\2\3\4\5\6\7\10\11\12\13\14", 1, 12, file), 12);
  assert_int_equal(fclose(file), 0);
  must_print(
      "inspect foreign.safetensors", 0,
      (const char *const[]){
          "w8      F8_E4M3                  6  [2, 3]", "w4      F4                       2  [4]",
          "deep    uint8                    2  [1, 1, 1, 1, 1, 1, 1, 1, 2]",
          "b       uint8                    2  [2]", "4 tensors, 14 elements, 12 bytes", NULL});
  must_print("inspect foreign.safetensors --json", 0,
             (const char *const[]){"\"name\":\"w4\",\"dtype\":\"F4\",\"shape\":[4],\"bytes\":2",
                                   "\"shape\":[1,1,1,1,1,1,1,1,2]", NULL});
  must_print("inspect foreign.safetensors --tensor b", 0,
             (const char *const[]){"tensor([11, 12], dtype=torch.uint8)", NULL});
  must_print("inspect foreign.safetensors --tensor w8", 1,
             (const char *const[]){"foreign.safetensors: tensor \"w8\": dtype F8_E4M3 is not "
                                   "supported",
                                   NULL});
}

/* Checks that untrusted names in a file neither move the cursor nor begin a line. */
static void names_of_files_are_shown_as_text(void **state) {
  (void)state;
  tdm_context *context = tdm_context_create(NULL);
  tdm_tensor *one = tdm_tensor_ones(context, "cpu:0", TDM_FLOAT32, tdm_shape_of(1, 1));
  tdm_tensor_list *list = tdm_tensor_list_create(context);
  assert_int_equal(tdm_tensor_list_add(list, "a\x1b[2Jb\nc \xc3\xa4", one), TDM_OK);
  assert_int_equal(tdm_safetensors_save(list, "hostile.safetensors"), TDM_OK);
  tdm_tensor_list_release(list);
  tdm_tensor_release(one);
  tdm_context_release(context);
  outcome ended = run("inspect hostile.safetensors", 0);
  assert_non_null(strstr(ended.output, "\na?[2Jb?c \xc3\xa4 "));
  outcome_free(&ended);
  must_print("inspect hostile.safetensors --json", 0,
             (const char *const[]){"\"name\":\"a\\u001b[2Jb\\u000ac \xc3\xa4\"", NULL});
}

int main(int count, char **arguments) {
  if (count != 3 || !realpath(arguments[1], command) || !realpath(arguments[2], machine)) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(relative_paths_are_the_users),
      cmocka_unit_test(a_folder_that_is_gone_is_named),
      cmocka_unit_test(commands_are_listed),
      cmocka_unit_test(the_binding_of_openmp_takes_no_processors),
      cmocka_unit_test(devices_and_links_are_told),
      cmocka_unit_test(the_manual_and_the_completion_know_all),
      cmocka_unit_test(json_is_json),
      cmocka_unit_test(the_doctor_tells_what_is_wrong),
      cmocka_unit_test(forecasts_are_of_what_is_asked_for),
      cmocka_unit_test(copies_are_measured),
      cmocka_unit_test(overheads_are_measured),
      cmocka_unit_test(colours_are_for_terminals),
      cmocka_unit_test(a_file_is_inspected),
      cmocka_unit_test(tensors_of_every_dtype_are_listed),
      cmocka_unit_test(names_of_files_are_shown_as_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
