/* The contract of every kind of device, defined by one conformance suite
 * (tests/devices/conformance).
 *
 *   context --- device --- queue: in order, asynchronous, numbered
 *                  |          \
 *                memory        submission = (program, flight): a stretch of commands of one run
 *
 * A point is (queue, sequence number). It is reached when the queue has passed that command. A WAIT
 * command holds its queue until a point of any queue is reached. A flight is one run's passage
 * through its programs: where its operands are, and which of its commands failed. Failure follows
 * the dependencies of commands: a command whose dependency failed is not executed and has failed
 * too. Everything else runs. Points are reached either way. */
#ifndef TANDEM_DEVICES_CONTRACT_DEVICE_H
#define TANDEM_DEVICES_CONTRACT_DEVICE_H

#include <stdatomic.h>

#include "core/park.h"
#include "core/status.h"
#include "tandem/devices/devices.h"

typedef struct tdm_queue tdm_queue;
typedef struct tdm_flight tdm_flight;
typedef struct tdm_faults tdm_faults;
/* Devices that communicate directly, and a group command in progress (contract/engine.h). */
typedef struct tdm_group tdm_group;
typedef struct tdm_group_wait tdm_group_wait;

/* ---- Memory ---------------------------------------------------------------------------------- */

/* An address on some device. Only its own device (host_pointer, translate) converts it to a
 * pointer. */
typedef uintptr_t tdm_address;

typedef struct tdm_memory {
  tdm_device *device;
  tdm_address address; /* aligned to 64 */
  size_t bytes;
  struct tdm_staging *staging; /* buffer of the context's pool; NULL: the device allocated the
                                * memory (staged_memory.h) */
} tdm_memory;

/* ---- Commands -------------------------------------------------------------------------------- */

/* An operand: flight->bases[base] + offset. */
typedef struct tdm_operand {
  uint32_t base; /* TDM_OPERAND_ABSENT: an optional input that is missing */
  uint64_t offset;
} tdm_operand;
#define TDM_OPERAND_ABSENT UINT32_MAX

typedef enum tdm_command_kind {
  TDM_COMMAND_EXECUTE,
  TDM_COMMAND_COPY,
  TDM_COMMAND_WAIT,
  TDM_COMMAND_GATE, /* if the flight has failed, the rest of the program is skipped: waits are
                     * executed, other commands count as failed */
  TDM_COMMAND_SEND, /* SEND and the next three commands run on the network's queues, or on each
                     * device's peer queue for a group */
  TDM_COMMAND_RECEIVE,
  TDM_COMMAND_ALL_REDUCE, /* a sum over all ranks or a group of devices, which all execute the same
                           * ones in the same order */
  TDM_COMMAND_VOTE,       /* waits for all ranks; fails unless no flight has failed and settings are
                           * equal; afterwards the flight cannot be stopped */
  TDM_COMMAND_NOTHING,    /* does nothing; replaces a removed command in tests */
} tdm_command_kind;

typedef struct tdm_execute {
  const tdm_kernel *kernel;
  const void *attributes;
  void *state;
  const tdm_spec *specs;       /* inputs, then outputs */
  const tdm_operand *operands; /* inputs, then outputs */
  uint16_t input_count;
  uint16_t output_count;
  uint8_t scalars;       /* index in the flight's scalars */
  bool is_empty;         /* all outputs are empty (tdm_outputs_are_empty) */
  tdm_operand workspace; /* base ABSENT: none */
  size_t workspace_bytes;
} tdm_execute;

typedef struct tdm_copy {
  tdm_device *from_device;
  tdm_device *to_device;
  tdm_operand from;
  tdm_operand to;
  size_t bytes;
} tdm_copy;

/* One end of a transfer from one rank of a job to another. The two ends are commands of two
 * programs, matched by the number. The sender reports whether its data was computed, so that a
 * failure follows the message as it follows dependencies. */
typedef struct tdm_message {
  uint64_t plan;   /* distinguishes plans; the same on all ranks */
  uint32_t number; /* unique among the plan's messages */
  uint32_t peer;   /* the rank at the other end; for a group: the index of this device */
  tdm_dtype dtype; /* dtype of the elements; only set for an all-reduce */
  tdm_operand at;  /* host memory of this rank; for a group: memory of the device */
  size_t bytes;
  tdm_group *group; /* the devices that execute it; NULL: the network */
  uint32_t partner; /* member at the other end; only set for a group's send or receive */
  uint32_t order;   /* position in the plan, the same on all members; only set for a group */
} tdm_message;

/* An injected failure of a wait makes the next command of the program that is not a wait fail. The
 * point is awaited all the same, so that memory is accessed in order. */
typedef struct tdm_wait {
  uint32_t program;  /* waits until this program of the same flight... */
  uint32_t position; /* ...has passed its command at this position */
  bool previous;     /* refers to the preceding run: flight->previous_bases, if that is not NULL */
} tdm_wait;

typedef struct tdm_command {
  uint8_t kind;       /* tdm_command_kind */
  bool signals;       /* another queue or thread waits for it: publish its point at once */
  uint32_t id;        /* index in the flight's records, in plan order; WAIT: of the next command */
  uint32_t condition; /* executes only if flight->conditions[condition - 1]; 0: always */
  uint32_t dependency_count;
  const uint32_t *dependencies; /* ids */
  union {
    tdm_execute execute;
    tdm_copy copy;
    tdm_wait wait;
    tdm_message message;
  };
  const char *name; /* name of the node, for a profiler; lives as long as the command; NULL: none */
} tdm_command;

/* A stretch of one queue. Immutable while any flight uses it. */
typedef struct tdm_program {
  tdm_queue *queue;
  tdm_command *commands;
  uint32_t count;
  bool splits; /* some command uses the team: the program is not run on a borrowed thread */
} tdm_program;

/* ---- Flights --------------------------------------------------------------------------------- */

/* When a command was executed, in tdm_time_ns for every device. All zeros: it was not executed. */
typedef struct tdm_command_times {
  uint64_t wait_ns; /* time at which its queue began to wait for a point; 0: it did not wait */
  uint64_t begin_ns;
  uint64_t end_ns;
  uint64_t core_wait_ns; /* part of the time in which a copy by the host waited for a core */
} tdm_command_times;

typedef struct tdm_failure {
  uint32_t id; /* id of the earliest failed command in plan order; UINT32_MAX: none */
  tdm_status status;
  char message[TDM_MESSAGE_BYTES];
} tdm_failure;

#define TDM_BASE_NONE UINT64_MAX

struct tdm_flight {
  const tdm_program *programs;
  uint64_t *program_bases; /* sequence number of each program's first command, set by submitting */
  const uint64_t *previous_bases; /* program_bases of the preceding run, with TDM_BASE_NONE if there
                                   * is nothing to wait for; NULL: no preceding run */
  tdm_address *bases;
  const uint8_t *conditions;
  const tdm_run_scalars *scalars; /* at least one element; a command selects one by its index */
  uint64_t number;                /* number of the job's run, the same on all ranks */
  uint64_t settings;              /* hash of settings that updates depend on and that are not in a
                                   * plan: equal on all ranks that vote */
  uint8_t *failed_ids;            /* one byte per command id; read only if failed is nonzero */
  tdm_command_times *times;       /* per command id, zeroed before submitting; NULL: not recorded */
  _Atomic uint32_t failed;        /* nonzero if any command failed or the flight was stopped */
  _Atomic uint32_t stopped;       /* 0; the tdm_status of a stop; or TDM_FLIGHT_CLOSED */
  _Atomic uint32_t remaining;     /* submissions that have not ended; set before submitting */
  _Atomic uint32_t failure_lock;
  tdm_failure failure;
  /* Called once by the thread that ends the last submission, after its points are published. Must
   * not block. It may submit the flight again or free it. */
  void (*settled)(tdm_flight *flight);
  void *user;
};

/* Stops a flight: commands that have not begun fail without their own message. Returns false if it
 * was stopped or closed before. A gate that the flight passes closes it. Any thread, as long as the
 * flight is not freed or reset. */
#define TDM_FLIGHT_CLOSED UINT32_MAX
bool tdm_flight_stop(tdm_flight *flight, tdm_status status);
/* Makes the flight unstoppable. Returns TDM_OK, or the status with which it was already stopped. */
tdm_status tdm_flight_close(tdm_flight *flight);

/* Marks id failed and keeps the message if it is the earliest failure so far. Any thread. */
void tdm_flight_fail(tdm_flight *flight, uint32_t id, tdm_status status, const char *message);
/* Marks id failed without its own message, because it was skipped. */
void tdm_flight_mark_failed(tdm_flight *flight, uint32_t id);
/* Returns true if the command or any dependency has failed, and then marks the command failed. */
bool tdm_flight_spoiled(tdm_flight *flight, const tdm_command *command);
/* Returns the queue of a WAIT's point, or NULL if there is no preceding run to wait for. */
static inline tdm_queue *tdm_flight_awaited(const tdm_flight *flight, const tdm_wait *wait,
                                            uint64_t *out_sequence) {
  const uint64_t *bases = wait->previous ? flight->previous_bases : flight->program_bases;
  if (!bases || bases[wait->program] == TDM_BASE_NONE) return NULL;
  *out_sequence = bases[wait->program] + wait->position;
  return flight->programs[wait->program].queue;
}
/* Records the failure of the wait at cursor, from the thread's message, for the command that
 * waited. */
void tdm_flight_fail_after_wait(tdm_flight *flight, const tdm_program *program, uint32_t cursor,
                                tdm_status status);
/* Returns how many bytes of an operand a kernel may access; at least one for a custom format. */
size_t tdm_operand_bytes(const tdm_spec *spec);
/* Returns true if all outputs are empty, so that the kernel has nothing to do and is not called: it
 * might loop over the other extents, which may be large. */
bool tdm_outputs_are_empty(const tdm_spec *outputs, size_t count);
/* Copies the failure of a failed flight: its earliest failure, or else the status that it was
 * stopped with. text has TDM_MESSAGE_BYTES. */
tdm_status tdm_flight_read_failure(tdm_flight *flight, char *text);
/* Clears the failure record (command_count ids) before a new run, which can be stopped again. */
void tdm_flight_reset(tdm_flight *flight, uint32_t command_count);

/* One program of one flight, on its way through a queue. The submitter provides its memory, which
 * must live until the flight has settled. */
typedef struct tdm_submission {
  struct tdm_submission *next;
  tdm_flight *flight;
  uint32_t program;
  uint32_t cursor;
  uint64_t base;
  uint64_t due_ns; /* end of the current command on queues that model time */
  uint64_t begin_ns;
  uint64_t begin_cpu_ns; /* CPU time of the executing thread then, if times are recorded */
} tdm_submission;

/* Carries the messages of a rank's network, and its votes. Called by one thread at a time, the one
 * that executes its queues. */
typedef struct tdm_messenger tdm_messenger;
struct tdm_messenger {
  /* Advances a queue's message without waiting. The queue's next message follows when this one has
   * ended. spoiled: the data to send was not computed, and the other end is notified instead;
   * received data is discarded. If *out_ended is set, the message has ended and the result is its
   * status. */
  tdm_status (*advance)(tdm_messenger *messenger, const tdm_command *command, tdm_flight *flight,
                        bool spoiled, bool *out_ended);
  /* Checks for lost ranks, for threads that wait for all ranks without a message; any thread. Fails
   * with UNAVAILABLE, naming the rank, if one is lost or left some time ago. *left_ns belongs to
   * the caller and is 0 at the beginning of a wait. */
  tdm_status (*check)(tdm_messenger *messenger, uint64_t *left_ns);
  /* Reports that this rank cannot take part any more. Operations that wait for it fail on all
   * ranks, with status and the thread's message. Any thread. */
  void (*give_up)(tdm_messenger *messenger, tdm_status status);
  /* For commands of groups (contract/engine.h), called by their device. begun records that a device
   * has reached the command at position and waits for its other members. `slot` is its number, from
   * 0, among the rank's devices with an engine. check_group fails with UNAVAILABLE, and notifies
   * all ranks, if a command is stalled although all its members have reached it and are alive. */
  void (*begun)(tdm_messenger *messenger, uint32_t slot, uint64_t position);
  tdm_status (*check_group)(tdm_messenger *messenger, tdm_group_wait *wait);
  /* Longest time until check names a lost rank; 0: it never does. */
  uint64_t naming_ns;
};

/* A thread's wait for something that may depend on messages. Initially zeros. */
typedef struct tdm_attendance {
  bool has_cores; /* the thread runs on its device's cores, and the device is idle meanwhile */
  bool attends;
  uint64_t since_ns;
  uint64_t yielded_ns;
  uint64_t patience_ns;
} tdm_attendance;

/* Executes the queues of a rank's network, for threads that wait. */
typedef struct tdm_attendant tdm_attendant;
struct tdm_attendant {
  /* Advances the queues without waiting. Returns true if the awaited event may happen soon, so that
   * the thread should check and call again; false if it should park. */
  bool (*attend)(tdm_attendant *attendant, tdm_attendance *wait);
  /* The thread parks after its last call of attend. Legal without one. */
  void (*leave)(tdm_attendant *attendant, tdm_attendance *wait);
  /* Ends a wait, which may begin again. */
  void (*end)(tdm_attendant *attendant, tdm_attendance *wait);
  /* Advances the queues, because a point was reached that a queue of the network waits for. */
  void (*look)(tdm_attendant *attendant);
  uint32_t bell; /* the bell for requesting points */
};

/* ---- Queues ---------------------------------------------------------------------------------- */

typedef enum tdm_queue_role {
  TDM_QUEUE_COMPUTE,  /* kernels, and copies if a kind has no queue for them */
  TDM_QUEUE_UPLOAD,   /* copies from the host to this device */
  TDM_QUEUE_DOWNLOAD, /* copies from this device to the host */
  TDM_QUEUE_PEER,     /* copies from another device of its kind to this one, and sums among such
                       * devices */
  TDM_QUEUE_SUM,      /* kernels that add received data; for cpu devices in jobs of several ranks,
                       * and for all kinds that have queues for copies */
  /* On the first cpu device of each rank in a job of several ranks: its network's queues. */
  TDM_QUEUE_SEND,    /* messages from any device of the host to other ranks */
  TDM_QUEUE_RECEIVE, /* messages from other ranks to any device of the host */
  TDM_QUEUE_ROLES,
  TDM_QUEUE_OWN_ROLES = TDM_QUEUE_SEND /* the roles below carry what stays within a rank */
} tdm_queue_role;

#define TDM_MAX_WAITERS 64

struct tdm_queue {
  tdm_device *device;
  tdm_queue_role role;
  uint32_t index;             /* index among all queues of the context */
  _Atomic uint64_t submitted; /* next sequence number; under the context's submit lock */
  _Alignas(64) _Atomic uint64_t completed; /* all points below this number are reached */
  _Atomic uint64_t waiters; /* bit i: bell tdm_context_bell(context, i) requested a ring */
  _Atomic bool waits;       /* the host thread that executes it is waiting for a point */
};

static inline bool tdm_queue_reached(tdm_queue *queue, uint64_t sequence) {
  return atomic_load_explicit(&queue->completed, memory_order_seq_cst) > sequence;
}

/* ---- The device ------------------------------------------------------------------------------ */

typedef struct tdm_link {
  double latency_ns;
  double bytes_per_ns;
} tdm_link;

/* Every slot is filled; tdm_device_ops_check reports an empty one. */
typedef struct tdm_device_ops {
  const char *kind;     /* "cpu" */
  const char *executes; /* the kind whose kernels it executes: "cpu" */
  /* Frees the device, which is stopped and has no allocated memory. Accepts a half-built device,
   * and NULL. */
  void (*destroy)(tdm_device *device);
  /* Assigns the device's cores and starts its threads, before its first submission. */
  tdm_status (*start)(tdm_device *device);
  /* Completes queued work and joins the threads. Legal twice, and on a device that was never
   * started. Afterwards memory may still be released, and host_pointer stays valid. Do not call it
   * on one of the device's threads. */
  void (*stop)(tdm_device *device);
  /* Strikes TDM_FAULT_ALLOCATION first. 0 bytes return an address as well. */
  tdm_status (*allocate)(tdm_device *device, size_t bytes, tdm_memory *out_memory);
  void (*release)(tdm_device *device, tdm_memory *memory);
  /* Gets the total memory and the memory that is free at the moment; 0: unknown. Any thread. */
  tdm_status (*memory)(tdm_device *device, uint64_t *out_bytes, uint64_t *out_free_bytes);
  /* Returns the host's pointer to memory of this device, or NULL if the host cannot access it. */
  void *(*host_pointer)(tdm_device *device, tdm_address address);
  /* For code that executes for this device: gets a pointer to [address, address + bytes). Fails
   * with INVALID_ARGUMENT if that is not live memory of this device. */
  tdm_status (*translate)(tdm_device *device, tdm_address address, size_t bytes, void **out);
  /* Copies between this device and another of any kind that have a queue in common. The queue that
   * carries the copy has struck TDM_FAULT_COPY. */
  tdm_status (*copy)(tdm_device *device, const tdm_copy *copy, tdm_address from, tdm_address to);
  /* Appends to queue; base and the queue's `submitted` are already set. Never fails or blocks. */
  void (*submit)(tdm_queue *queue, tdm_submission *submission);
  /* Lends the queue to the calling thread and returns true if it is idle. Returns false if it is
   * busy or the kind does not support borrowing. Called under the lock that guards submit. */
  bool (*borrow)(tdm_queue *queue);
  /* Executes submission on the calling thread until it ends, waits included, and returns the
   * borrowed queue. */
  void (*run_borrowed)(tdm_queue *queue, tdm_submission *submission);
  /* Returns the modelled cost of a copy from or to `other`. */
  tdm_link (*link)(const tdm_device *device, const tdm_device *other);
  /* Pins host memory for this device's copies. memory and bytes are whole pages that are not yet
   * pinned for it. Fails with UNSUPPORTED if the kind does not use pinned memory. Any thread; may
   * be slow. */
  tdm_status (*pin)(tdm_device *device, void *memory, size_t bytes);
  /* Unpins a whole range that was pinned and that no copy uses. Fails with INVALID_ARGUMENT for any
   * other range. */
  tdm_status (*unpin)(tdm_device *device, void *memory, size_t bytes);
} tdm_device_ops;

struct tdm_device {
  const tdm_device_ops *ops;
  tdm_context *context; /* borrowed: the context owns its devices */
  char name[24];        /* "cpu:0"; in a job of several ranks "host:1/cpu:0" */
  /* The kind's engine for communication with devices of its kind on a queue of its own. */
  const struct tdm_engine *engine; /* NULL: uses its host, or is of another rank */
  char engine_name[24];            /* "NCCL 2.28.9"; "": none */
  char engine_absence[160];        /* why there is none, if its kind has engines; otherwise "" */
  bool exchanges;    /* communicates by its engine with devices of other ranks that do; the same on
                      * all ranks */
  char identity[96]; /* distinguishes devices of one name: model, driver's version, settings;
                      * measured links of another identity do not apply; "": nothing to add */
  int rank;          /* rank in the job; 0 without a job */
  int index;         /* index within its rank and kind */
  int context_index; /* index among all devices */
  int node;          /* os index of the nearest NUMA node; -1: unknown or ambiguous */
  bool host_addressable;
  bool described;       /* belongs to a described machine or another rank: it can be planned for,
                         * but nothing executes */
  bool stages_pageable; /* copies of pageable host memory use the staging pool */
  /* Addresses that belong to this device only and that the host cannot dereference; none if
   * hidden_bytes is 0. Code for host addressable devices refuses operands in this range. */
  tdm_address hidden_begin;
  size_t hidden_bytes;
  size_t team_size; /* number of threads that a kernel may use; at least 1; fixed by start */
  tdm_queue *queues[TDM_QUEUE_ROLES]; /* NULL for roles that the kind lacks */
};

/* Returns TDM_OK, or INTERNAL with a message that names the empty slot. */
tdm_status tdm_device_ops_check(const tdm_device_ops *ops) TDM_WARN_UNUSED;
/* Implement the slots pin and unpin for kinds that do not pin host memory. */
tdm_status tdm_device_pin_unsupported(tdm_device *device, void *memory, size_t bytes);
tdm_status tdm_device_unpin_unsupported(tdm_device *device, void *memory, size_t bytes);
/* Implements the slot host_pointer for kinds whose memory the host cannot access: returns NULL. */
void *tdm_device_no_host_pointer(tdm_device *device, tdm_address address);
/* Failures of the slots of several kinds: UNSUPPORTED, naming the copy's devices, and
 * INVALID_ARGUMENT, naming an address that is not in the device's memory. */
tdm_status tdm_device_copy_unsupported(const tdm_device *device, const tdm_copy *copy);
tdm_status tdm_device_not_its_memory(const tdm_device *device, tdm_address address, size_t bytes);
/* Returns "cpu:0" for a device named "host:1/cpu:0" in a job. */
const char *tdm_device_own_name(const tdm_device *device);
/* Returns true if both are of one kind and one rank. */
bool tdm_device_same_kind(const tdm_device *a, const tdm_device *b);

/* ---- Faults, for tests ----------------------------------------------------------------------- */

typedef enum tdm_fault_site {
  TDM_FAULT_ALLOCATION, /* device memory */
  TDM_FAULT_COPY,
  TDM_FAULT_KERNEL,
  TDM_FAULT_WAIT,
  TDM_FAULT_SITES
} tdm_fault_site;

struct tdm_faults {
  _Atomic uint64_t calls[TDM_FAULT_SITES];   /* calls since the site was armed with UINT64_MAX,
                                              * which only counts */
  _Atomic uint64_t fail_at[TDM_FAULT_SITES]; /* the Nth call from now fails, from 1; 0: none */
  _Atomic bool from_on;                      /* every later call fails too */
};

/* Arms one site of all devices of the context (n 0: disarms), and resets its count. */
void tdm_faults_arm(tdm_faults *faults, tdm_fault_site site, uint64_t n, bool from_on);
/* Counts a call while its site is armed. Fails, with a message ("injected failure of copy 3"), if
 * it is the chosen call. */
tdm_status tdm_faults_strike(tdm_faults *faults, tdm_fault_site site);

#endif
