/* Default options of every program built with a sanitizer; ASAN_OPTIONS and similar variables
 * override them. They are linked into each binary by --custom_malloc in .bazelrc. Options in the
 * environment would be lost under `bazel run`, and a suppression file has no path that is valid in
 * every sandbox. Only reports from inside libraries of others are suppressed. */

const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__tsan_default_suppressions(void);
const char *__ubsan_default_options(void);

/* In asan_ubsan checks of undefined behaviour trap; 2: cmocka would report less about the signal.
 * The last 16 MiB of freed memory are kept instead of 256: tests free little between a release and
 * a use, and memory that is not reused comes from the kernel page by page. */
const char *__asan_default_options(void) {
  return "detect_leaks=1:strict_string_checks=1:handle_sigill=2:"
         "quarantine_size_mb=16:thread_local_quarantine_size_kb=64";
}

const char *__tsan_default_options(void) {
  return "halt_on_error=1:second_deadlock_stack=1";
}

/* libomp is not instrumented, so its own locks look like races. ThreadSanitizer learns the order of
 * its regions and barriers through OMPT (libarcher). */
const char *__tsan_default_suppressions(void) {
  return "called_from_lib:libomp.so\n";
}

const char *__ubsan_default_options(void) {
  return "print_stacktrace=1";
}
