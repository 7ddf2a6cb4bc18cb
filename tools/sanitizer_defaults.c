/* What every program built with a sanitizer starts with; the environment (ASAN_OPTIONS and so on)
 * still has the last word. Linked into each binary by --custom_malloc in .bazelrc, since options in
 * the environment would be lost under `bazel run`, and a suppression file has no path that holds in
 * every sandbox. Only reports from inside other people's libraries are suppressed, never our own.
 */

const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__tsan_default_suppressions(void);
const char *__ubsan_default_options(void);

/* asan_ubsan has checks of undefined behaviour trap; 2: cmocka would tell less of the signal. Of
 * what was freed the last 16 MiB are kept, not 256: tests free little between a release and a use,
 * and memory that is not used again comes from the kernel page by page. */
const char *__asan_default_options(void) {
  return "detect_leaks=1:strict_string_checks=1:handle_sigill=2:"
         "quarantine_size_mb=16:thread_local_quarantine_size_kb=64";
}

const char *__tsan_default_options(void) {
  return "halt_on_error=1:second_deadlock_stack=1";
}

/* libomp is not instrumented: its own locks look like races, while the order that its regions and
 * barriers give is told to ThreadSanitizer through OMPT (libarcher) and stays visible. */
const char *__tsan_default_suppressions(void) {
  return "called_from_lib:libomp.so\n";
}

const char *__ubsan_default_options(void) {
  return "print_stacktrace=1";
}
