/* See held_plan.h. */
#define _GNU_SOURCE /* syscall */
#include "tests/graph/run/counters/held_plan.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- The gate -------------------------------------------------------------------------------- */

static _Atomic uint64_t moves;

void held_plan_moved(void) {
  atomic_fetch_add(&moves, 1);
}

/* Returns true if the thread sleeps or has ended, and does not run or wait for a core. */
static bool is_asleep(const char *thread) {
  char path[300], line[512];
  (void)snprintf(path, sizeof path, "/proc/self/task/%s/stat", thread);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? -1 : read(file, line, sizeof line - 1);
  if (file >= 0) (void)close(file);
  line[bytes > 0 ? bytes : 0] = '\0';
  const char *state = strrchr(line, ')'); /* the state follows the name, which may be any text */
  return !state || strncmp(state, ") S", 3) == 0;
}

/* Returns true if all other threads sleep. On a busy machine one may wait long for its core. */
static bool others_are_asleep(void) {
  char own[24];
  (void)snprintf(own, sizeof own, "%ld", (long)syscall(SYS_gettid));
  DIR *threads = opendir("/proc/self/task");
  if (!threads) abort();
  bool asleep = true;
  for (const struct dirent *entry; asleep && (entry = readdir(threads));)
    asleep = entry->d_name[0] == '.' || strcmp(entry->d_name, own) == 0 || is_asleep(entry->d_name);
  (void)closedir(threads);
  return asleep;
}

/* Ends when no thread has run for some time, so that everything that the gate does not block has
 * happened. The time is for links, whose copies need no thread. */
static tdm_status execute_gate(const tdm_kernel_call *call) {
  (void)call;
  uint64_t before;
  do {
    const struct timespec pause = {.tv_nsec = 300000};
    before = atomic_load(&moves);
    (void)nanosleep(&pause, NULL);
  } while (!others_are_asleep() || atomic_load(&moves) != before);
  return TDM_OK;
}

static const tdm_kernel gate_kernel = {.struct_size = sizeof(tdm_kernel),
                                       .operation = "gate",
                                       .executes = "cpu",
                                       .dtype = TDM_FLOAT64,
                                       .execute = execute_gate};

/* ---- Rebuilding ------------------------------------------------------------------------------ */

/* Command i of a program is at 2 * i + 1, its position at 2 * i. */
static void copy_program(held_plan *held, tdm_program *program, const tdm_program *from,
                         tdm_command *commands, bool is_main) {
  *program = *from;
  program->commands = commands;
  program->count = 2 * from->count;
  for (uint32_t i = 0; i < from->count; i++) {
    tdm_command *place = &commands[2 * (size_t)i];
    tdm_command *command = &commands[2 * (size_t)i + 1];
    *place = (tdm_command){.kind = TDM_COMMAND_NOTHING, .id = from->commands[i].id};
    *command = from->commands[i];
    if (command->kind == TDM_COMMAND_WAIT) {
      command->wait.position = 2 * command->wait.position + 1;
      if (command->wait.program >= held->gate) command->wait.program++;
      held->waits[held->wait_count++] = command;
    } else if (is_main) {
      held->places[held->place_count++] = place;
    }
  }
}

static void make_gate(held_plan *held, tdm_device *device, tdm_command *command) {
  tdm_program *program = &held->programs[held->gate];
  *program = (tdm_program){
      .queue = device->queues[TDM_QUEUE_COMPUTE], .commands = command, .count = 1, .splits = true};
  *command =
      (tdm_command){.kind = TDM_COMMAND_EXECUTE,
                    .signals = true,
                    .id = (uint32_t)held->plan->lowered.schedule.step_count,
                    .execute = {.kernel = &gate_kernel, .workspace = {.base = TDM_OPERAND_ABSENT}}};
}

void held_plan_begin(held_plan *held, tdm_plan *plan, tdm_device *gate_device) {
  memset(held, 0, sizeof *held);
  held->plan = plan;
  held->gate = plan->main_program_count;
  size_t count = 0;
  for (uint32_t p = 0; p < plan->program_count; p++)
    count += plan->programs[p].count;
  held->programs = calloc(plan->program_count + 1, sizeof *held->programs);
  held->commands = calloc(2 * count + 1, sizeof *held->commands);
  held->places = calloc(count + 1, sizeof(tdm_command *));
  held->waits = calloc(count + 1, sizeof(tdm_command *));
  if (!held->programs || !held->commands || !held->places || !held->waits) abort();
  tdm_command *commands = held->commands;
  for (uint32_t p = 0; p < plan->program_count; p++) {
    const bool is_main = p < plan->main_program_count;
    copy_program(held, &held->programs[is_main ? p : p + 1], &plan->programs[p], commands, is_main);
    commands += 2 * (size_t)plan->programs[p].count;
  }
  make_gate(held, gate_device, commands);
  plan->programs = held->programs; /* the old ones are in the plan's region */
  plan->program_count++;
  plan->main_program_count++;
}

void held_plan_end(held_plan *held) {
  free(held->programs);
  free(held->commands);
  free((void *)held->places);
  free((void *)held->waits);
  memset(held, 0, sizeof *held);
}

void held_plan_hold(held_plan *held, int place) {
  for (int i = 0; i < held->place_count; i++) {
    held->places[i]->kind = i == place ? TDM_COMMAND_WAIT : TDM_COMMAND_NOTHING;
    held->places[i]->wait = (tdm_wait){.program = held->gate, .position = 0};
  }
}

void held_plan_ignore(held_plan *held, int wait) {
  held->waits[wait]->kind = TDM_COMMAND_NOTHING;
}

int held_plan_awaited(const held_plan *held, int wait) {
  const tdm_wait *of = &held->waits[wait]->wait;
  const tdm_command *place = &held->programs[of->program].commands[of->position - 1];
  for (int i = 0; i < held->place_count; i++)
    if (held->places[i] == place) return i;
  return 0;
}
