/* The contract that every kind of device keeps; one conformance suite (tests/devices/conformance)
 * is its definition.
 *
 *   context --- device --- queue: in order, asynchronous, numbered
 *                  |          \
 *                memory        submission = (program, flight): a stretch of commands of one run
 *
 * A point is (queue, sequence number): it is reached once the queue has passed that command. A
 * WAIT command holds its queue until a point of any queue is reached. A flight is one run's
 * passage through its programs: where its operands lie, and which of its commands failed. Failure
 * travels along the dependencies that commands name: a command whose dependency failed is not
 * executed and has failed too; everything else runs. Points are reached either way. */
#ifndef TANDEM_DEVICES_CONTRACT_DEVICE_H
#define TANDEM_DEVICES_CONTRACT_DEVICE_H

#include <stdatomic.h>

#include "core/park.h"
#include "core/status.h"
#include "tandem/devices/devices.h"

typedef struct tdm_queue tdm_queue;
typedef struct tdm_flight tdm_flight;
typedef struct tdm_faults tdm_faults;
/* Devices that sum together, and a sum that is under way (contract/engine.h). */
typedef struct tdm_group tdm_group;
typedef struct tdm_group_wait tdm_group_wait;

/* ---- Memory -------------------------------------------------------------------------------- */

/* An address of some device. Only its own device (host_pointer, translate) makes it a pointer. */
typedef uintptr_t tdm_address;

typedef struct tdm_memory {
  tdm_device *device;
  tdm_address address; /* aligned to 64 */
  size_t bytes;
  struct tdm_staging *staging; /* of the context's pool; NULL: the device's own (staged_memory.h) */
} tdm_memory;

/* ---- Commands ------------------------------------------------------------------------------ */

/* An operand: flight->bases[base] + offset. */
typedef struct tdm_operand {
  uint32_t base; /* TDM_OPERAND_ABSENT: an optional input that is not there */
  uint64_t offset;
} tdm_operand;
#define TDM_OPERAND_ABSENT UINT32_MAX

typedef enum tdm_command_kind {
  TDM_COMMAND_EXECUTE,
  TDM_COMMAND_COPY,
  TDM_COMMAND_WAIT,
  TDM_COMMAND_GATE, /* if the flight has failed, the rest of the program is passed over: waits
                       are kept, other commands count as failed */
  TDM_COMMAND_SEND, /* these four on the queues of a rank's network; what devices of a group do
                       together on the queue for peers of each */
  TDM_COMMAND_RECEIVE,
  TDM_COMMAND_ALL_REDUCE, /* a sum over all ranks, or a group of devices, which have the same ones
                             in the same order */
  TDM_COMMAND_VOTE,    /* waits for all ranks, and fails unless no flight of theirs has failed and
                          settings are alike: from here on it cannot be stopped */
  TDM_COMMAND_NOTHING, /* passes; what a removed command becomes in tests */
} tdm_command_kind;

typedef struct tdm_execute {
  const tdm_kernel *kernel;
  const void *attributes;
  void *state;
  const tdm_spec *specs;       /* inputs, then outputs */
  const tdm_operand *operands; /* inputs, then outputs */
  uint16_t input_count;
  uint16_t output_count;
  uint8_t scalars;       /* which of the flight's */
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

/* One end of what goes from a rank of a job to another. The two ends are commands of two programs,
 * matched by the number; whoever sends tells whether what it sends was made, so that a failure
 * travels along the message as it does along dependencies. */
typedef struct tdm_message {
  uint64_t plan;   /* tells it apart from other plans; the same on all ranks */
  uint32_t number; /* among the plan's messages */
  uint32_t peer;   /* the rank at the other end; of a group which member this device is */
  tdm_dtype dtype; /* of an all-reduce */
  tdm_operand at;  /* host memory of this rank; of a group memory of the device */
  size_t bytes;
  tdm_group *group; /* devices do it; NULL: the network */
  uint32_t partner; /* of a group's send or receive: the member at the other end */
  uint32_t order;   /* of a group: its place in the plan, alike for all that it meets */
} tdm_message;

/* An injected failure of a wait falls on the next command of the program that is none; the point is
 * awaited all the same, so that no memory is touched out of order. */
typedef struct tdm_wait {
  uint32_t program;  /* of the same flight... */
  uint32_t position; /* ...has passed its command of this position */
  bool previous;     /* of the run before instead: flight->previous_bases, if that is not NULL */
} tdm_wait;

typedef struct tdm_command {
  uint8_t kind; /* tdm_command_kind */
  bool signals; /* somebody waits for it: publish its point at once */
  uint32_t id;  /* index in the flight's records; plan order; WAIT: of what it stands before */
  uint32_t condition; /* executes only if flight->conditions[condition - 1]; 0: always */
  uint32_t dependency_count;
  const uint32_t *dependencies; /* ids */
  union {
    tdm_execute execute;
    tdm_copy copy;
    tdm_wait wait;
    tdm_message message;
  };
  const char *name; /* of the node, for a profiler's ranges; lives as long; NULL: it has none */
} tdm_command;

/* A stretch of one queue. Immutable while any flight uses it. */
typedef struct tdm_program {
  tdm_queue *queue;
  tdm_command *commands;
  uint32_t count;
  bool splits; /* some command wants the team: the program is not run on a borrowed thread */
} tdm_program;

/* ---- Flights ------------------------------------------------------------------------------- */

/* When a command was executed, by tdm_time_ns whatever the device. All zero: it was not. */
typedef struct tdm_command_times {
  uint64_t wait_ns; /* its queue came to wait for a point, until begin_ns; 0: it did not */
  uint64_t begin_ns;
  uint64_t end_ns;
  uint64_t core_wait_ns; /* part of it: a copy that the host makes waited for a core */
} tdm_command_times;

typedef struct tdm_failure {
  uint32_t id; /* of the earliest failed command in plan order; UINT32_MAX: none */
  tdm_status status;
  char message[TDM_MESSAGE_BYTES];
} tdm_failure;

#define TDM_BASE_NONE UINT64_MAX

struct tdm_flight {
  const tdm_program *programs;
  uint64_t *program_bases; /* sequence number of each program's first command, once submitted */
  const uint64_t *previous_bases; /* program_bases of the run before, or TDM_BASE_NONE where there
                                     is nothing to wait for; NULL: none at all */
  tdm_address *bases;
  const uint8_t *conditions;
  const tdm_run_scalars *scalars; /* one at least; commands say which */
  uint64_t number;                /* which of the job's runs it is, alike on all ranks */
  uint64_t settings;              /* of what updates go by and no plan tells, a hash: alike on all
                                     ranks that vote */
  uint8_t *failed_ids;            /* one byte a command id; read only where failed is nonzero */
  tdm_command_times *times;       /* per command id, zeroed before submitting; NULL: not recorded */
  _Atomic uint32_t failed;        /* nonzero once any command failed, or the flight was stopped */
  _Atomic uint32_t stopped;       /* 0; the tdm_status it was stopped with; or TDM_FLIGHT_CLOSED */
  _Atomic uint32_t remaining;     /* submissions that have not ended; set before submitting */
  _Atomic uint32_t failure_lock;
  tdm_failure failure;
  /* Called once by whoever ends the last submission, after its points are published; must not
   * block. The flight may be submitted anew or freed inside. */
  void (*settled)(tdm_flight *flight);
  void *user;
};

/* Stops a flight from outside: commands that have not begun fail without a message of their own.
 * False: it was stopped or closed before. A gate closes the flight when it lets it pass. Any
 * thread, as long as the flight is not freed or reset. */
#define TDM_FLIGHT_CLOSED UINT32_MAX
bool tdm_flight_stop(tdm_flight *flight, tdm_status status);
/* From here on it cannot be stopped. TDM_OK, or what it was stopped with already. */
tdm_status tdm_flight_close(tdm_flight *flight);

/* Marks id failed and keeps the message if it is the earliest so far. Any thread. */
void tdm_flight_fail(tdm_flight *flight, uint32_t id, tdm_status status, const char *message);
/* Marks id failed without a message of its own: it was passed over. */
void tdm_flight_mark_failed(tdm_flight *flight, uint32_t id);
/* Has command failed already, or any dependency of it? Marks command failed if so. */
bool tdm_flight_spoiled(tdm_flight *flight, const tdm_command *command);
/* The point that a WAIT is for; NULL where there is no run before to wait for. */
static inline tdm_queue *tdm_flight_awaited(const tdm_flight *flight, const tdm_wait *wait,
                                            uint64_t *out_sequence) {
  const uint64_t *bases = wait->previous ? flight->previous_bases : flight->program_bases;
  if (!bases || bases[wait->program] == TDM_BASE_NONE) return NULL;
  *out_sequence = bases[wait->program] + wait->position;
  return flight->programs[wait->program].queue;
}
/* The failure of the wait at cursor, in the thread's words, falls on the command that waited. */
void tdm_flight_fail_after_wait(tdm_flight *flight, const tdm_program *program, uint32_t cursor,
                                tdm_status status);
/* How many bytes a kernel may touch of an operand; of one in a format of its own one at least. */
size_t tdm_operand_bytes(const tdm_spec *spec);
/* Returns true if all outputs are empty, so that the kernel has nothing to do and is not called: it
 * might loop over the other extents, which may be large. */
bool tdm_outputs_are_empty(const tdm_spec *outputs, size_t count);
/* Copies what a failed flight says of itself: its earliest failure, else what it was stopped with.
 * text of TDM_MESSAGE_BYTES. */
tdm_status tdm_flight_read_failure(tdm_flight *flight, char *text);
/* Clears the failure record (command_count ids) before a new run, which may be stopped again. */
void tdm_flight_reset(tdm_flight *flight, uint32_t command_count);

/* One program of one flight, on its way through a queue; memory of whoever submits, who keeps it
 * until the flight has settled. */
typedef struct tdm_submission {
  struct tdm_submission *next;
  tdm_flight *flight;
  uint32_t program;
  uint32_t cursor;
  uint64_t base;
  uint64_t due_ns; /* for queues that model time */
  uint64_t begin_ns;
  uint64_t begin_cpu_ns; /* what the executing thread had worked then, where times are recorded */
} tdm_submission;

/* What carries the messages of a rank's network, and its votes. Called by one thread at a time, the
 * one that has its queues. */
typedef struct tdm_messenger tdm_messenger;
struct tdm_messenger {
  /* Takes a queue's message as far as it goes without waiting; the queue's next message comes when
   * this one has ended. spoiled: what is sent was not made, which the other end is told instead;
   * what is received is let go. *out_ended: it has, and the answer is what became of it. */
  tdm_status (*advance)(tdm_messenger *messenger, const tdm_command *command, tdm_flight *flight,
                        bool spoiled, bool *out_ended);
  /* For who waits for all ranks other than by a message; any thread. UNAVAILABLE, naming the rank,
   * where one is lost, or left some time ago. *left_ns is the caller's, 0 when it begins to wait.
   */
  tdm_status (*check)(tdm_messenger *messenger, uint64_t *left_ns);
  /* This rank can take no part any more: what waits for it fails on all, with status and the
   * thread's message. Any thread. */
  void (*give_up)(tdm_messenger *messenger, tdm_status status);
  /* Of commands of groups (contract/engine.h), by the device that has them. begun: of the rank's
   * devices with an engine that one, from 0, has come to the command at position, and waits for its
   * other members. check_group: UNAVAILABLE, which all ranks are told, where a command to which the
   * device has come stands still although all of its members have come to it and live. */
  void (*begun)(tdm_messenger *messenger, uint32_t slot, uint64_t position);
  tdm_status (*check_group)(tdm_messenger *messenger, tdm_group_wait *wait);
  /* How long a rank that is lost may take to be named by check; 0: none ever is. */
  uint64_t naming_ns;
};

/* A thread's wait for something that messages may bring. Zeros at first. */
typedef struct tdm_attendance {
  bool has_cores; /* the thread's are its device's, which computes nothing meanwhile */
  bool attends;
  uint64_t since_ns;
  uint64_t yielded_ns;
  uint64_t patience_ns;
} tdm_attendance;

/* What takes on the queues of a rank's network, for threads that wait. */
typedef struct tdm_attendant tdm_attendant;
struct tdm_attendant {
  /* Takes the queues on as far as they go without waiting. True: what the thread waits for may come
   * soon, so that it had better look, and call again. False: it had better park. */
  bool (*attend)(tdm_attendant *attendant, tdm_attendance *wait);
  /* Behind the last attend: the thread parks. Legal without one. */
  void (*leave)(tdm_attendant *attendant, tdm_attendance *wait);
  /* The wait is over; it may begin anew. */
  void (*end)(tdm_attendant *attendant, tdm_attendance *wait);
  /* A point is reached that a queue of the network waits for: takes the queues on. */
  void (*look)(tdm_attendant *attendant);
  uint32_t bell; /* that it asks for points by */
};

/* ---- Queues -------------------------------------------------------------------------------- */

typedef enum tdm_queue_role {
  TDM_QUEUE_COMPUTE,  /* kernels; copies where a kind has no queue for them */
  TDM_QUEUE_UPLOAD,   /* host to this device */
  TDM_QUEUE_DOWNLOAD, /* this device to host */
  TDM_QUEUE_PEER,     /* from another device of its kind to this one, and sums with such */
  TDM_QUEUE_SUM,      /* kernels that add what comes from elsewhere; of cpu devices in jobs of
                         several ranks, and of all kinds that have queues for copies */
  /* Of the first cpu device of each rank of a job that has several: its network's. */
  TDM_QUEUE_SEND,    /* from any device of the host to other ranks */
  TDM_QUEUE_RECEIVE, /* from other ranks to any device of the host */
  TDM_QUEUE_ROLES,
  TDM_QUEUE_OWN_ROLES = TDM_QUEUE_SEND /* those below carry what stays within a rank */
} tdm_queue_role;

#define TDM_MAX_WAITERS 64

struct tdm_queue {
  tdm_device *device;
  tdm_queue_role role;
  uint32_t index;             /* among all queues of the context */
  _Atomic uint64_t submitted; /* sequence numbers given out; under the context's submit lock */
  _Alignas(64) _Atomic uint64_t completed; /* every point below is reached */
  _Atomic uint64_t waiters; /* bit i: the bell tdm_context_bell(context, i) wants to hear */
  _Atomic bool waits;       /* a thread of the host's that executes it, for a point */
};

static inline bool tdm_queue_reached(tdm_queue *queue, uint64_t sequence) {
  return atomic_load_explicit(&queue->completed, memory_order_seq_cst) > sequence;
}

/* ---- The device ---------------------------------------------------------------------------- */

typedef struct tdm_link {
  double latency_ns;
  double bytes_per_ns;
} tdm_link;

/* Every slot is filled; tdm_device_ops_check says which is not. */
typedef struct tdm_device_ops {
  const char *kind;     /* "cpu" */
  const char *executes; /* which kernels: "cpu" */
  /* Frees the device; stopped, and no memory of it is out. Accepts half-built, NULL too. */
  void (*destroy)(tdm_device *device);
  /* Gives the device its cores and starts its threads; before its first submission. */
  tdm_status (*start)(tdm_device *device);
  /* Ends what is queued and joins the threads. Legal twice, and on a device never started; memory
   * may be released afterwards, and host_pointer stays. Not on one of the device's threads. */
  void (*stop)(tdm_device *device);
  /* Strikes TDM_FAULT_ALLOCATION first. 0 bytes give an address as well. */
  tdm_status (*allocate)(tdm_device *device, size_t bytes, tdm_memory *out_memory);
  void (*release)(tdm_device *device, tdm_memory *memory);
  /* How much memory there is in all, and how much of it is free at the moment; 0: unknown. Any
   * thread. */
  tdm_status (*memory)(tdm_device *device, uint64_t *out_bytes, uint64_t *out_free_bytes);
  /* The host's pointer to memory of this device; NULL where the host has none. */
  void *(*host_pointer)(tdm_device *device, tdm_address address);
  /* For code that executes for this device: a pointer to [address, address + bytes), or
   * INVALID_ARGUMENT when that is not this device's live memory. */
  tdm_status (*translate)(tdm_device *device, tdm_address address, size_t bytes, void **out);
  /* Copies between this device and another of any kind that have a queue in common; the
   * queue that carries it has struck TDM_FAULT_COPY. */
  tdm_status (*copy)(tdm_device *device, const tdm_copy *copy, tdm_address from, tdm_address to);
  /* Appends to queue; base and the queue's `submitted` are already set. Never fails, never blocks.
   */
  void (*submit)(tdm_queue *queue, tdm_submission *submission);
  /* Under the lock that guards submit: if the queue is idle, lends it to the calling thread and
   * answers true. False where it is busy or where a kind has no such thing. */
  bool (*borrow)(tdm_queue *queue);
  /* Of a borrowed queue: runs submission on the calling thread to its end, waits included, and
   * gives the queue back. */
  void (*run_borrowed)(tdm_queue *queue, tdm_submission *submission);
  /* The modelled cost of a copy from or to `other`. */
  tdm_link (*link)(const tdm_device *device, const tdm_device *other);
  /* Locks host memory in place for this device's copies; memory and bytes are whole pages that are
   * not pinned for it yet. UNSUPPORTED where a kind has no use for it. Any thread; may be slow. */
  tdm_status (*pin)(tdm_device *device, void *memory, size_t bytes);
  /* Of a range that pin was given, whole; INVALID_ARGUMENT for any other. No copy uses it. */
  tdm_status (*unpin)(tdm_device *device, void *memory, size_t bytes);
} tdm_device_ops;

struct tdm_device {
  const tdm_device_ops *ops;
  tdm_context *context; /* borrowed: the context owns its devices */
  char name[24];        /* "cpu:0"; in a job of several ranks "host:1/cpu:0" */
  /* By what it sums with its kind's devices of other ranks on a queue of its own. */
  const struct tdm_engine *engine; /* NULL: through its host alone, or it is another rank's */
  char engine_name[24];            /* "NCCL 2.28.9"; "": there is none */
  char engine_absence[160];        /* then why, of kinds that have such a thing; else "" */
  bool exchanges;    /* with those of other ranks that do, by its engine; alike on all ranks */
  char identity[96]; /* what it is beyond its name: model, driver's version, settings; measured
                        links of another identity are not this device's. "": nothing to add */
  int rank;          /* of the job; 0 where there is none */
  int index;         /* within its rank and kind */
  int context_index; /* among all devices */
  int node;          /* os index of the NUMA node nearest to it; -1: unknown, or several are */
  bool host_addressable;
  bool described;       /* of a machine or a rank that is not here: it is planned for, nothing
                           executes */
  bool stages_pageable; /* copies of pageable host memory go through the staging pool */
  /* Addresses that the host cannot dereference and that belong to this device alone; none where
   * hidden_bytes is 0. Code for host addressable devices refuses operands from there. */
  tdm_address hidden_begin;
  size_t hidden_bytes;
  size_t team_size; /* threads that a kernel may use; at least 1; fixed by start */
  tdm_queue *queues[TDM_QUEUE_ROLES]; /* NULL where a kind has none; COMPUTE always */
};

/* INTERNAL, naming the empty slot, or TDM_OK. */
tdm_status tdm_device_ops_check(const tdm_device_ops *ops) TDM_WARN_UNUSED;
/* The slots pin and unpin of kinds that read host memory as it is. */
tdm_status tdm_device_pin_unsupported(tdm_device *device, void *memory, size_t bytes);
tdm_status tdm_device_unpin_unsupported(tdm_device *device, void *memory, size_t bytes);
/* The slot host_pointer of kinds whose memory the host does not reach: NULL. */
void *tdm_device_no_host_pointer(tdm_device *device, tdm_address address);
/* What slots of several kinds fail with: UNSUPPORTED, naming the copy's devices, and
 * INVALID_ARGUMENT, naming an address that is not of the device. */
tdm_status tdm_device_copy_unsupported(const tdm_device *device, const tdm_copy *copy);
tdm_status tdm_device_not_its_memory(const tdm_device *device, tdm_address address, size_t bytes);
/* Returns "cpu:0" for a device that is called "host:1/cpu:0" in a job. */
const char *tdm_device_own_name(const tdm_device *device);
/* Are they of one kind, and of one rank? */
bool tdm_device_same_kind(const tdm_device *a, const tdm_device *b);

/* ---- Faults, for tests --------------------------------------------------------------------- */

typedef enum tdm_fault_site {
  TDM_FAULT_ALLOCATION, /* device memory */
  TDM_FAULT_COPY,
  TDM_FAULT_KERNEL,
  TDM_FAULT_WAIT,
  TDM_FAULT_SITES
} tdm_fault_site;

struct tdm_faults {
  _Atomic uint64_t calls[TDM_FAULT_SITES];   /* since the site was armed, to count: at UINT64_MAX */
  _Atomic uint64_t fail_at[TDM_FAULT_SITES]; /* the Nth call from now fails, from 1; 0: none */
  _Atomic bool from_on;                      /* and every later one */
};

/* Arms one site of all devices of the context (n 0: disarms), and restarts its count. */
void tdm_faults_arm(tdm_faults *faults, tdm_fault_site site, uint64_t n, bool from_on);
/* Counts a call while its site is armed; a failure with its message ("injected failure of copy 3")
 * when it is its turn. */
tdm_status tdm_faults_strike(tdm_faults *faults, tdm_fault_site site);

#endif
