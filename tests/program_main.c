/* The main of a test program whose own is called PROGRAM, since it is one of several in another
 * executable (programs.c). */
int PROGRAM(int argc, char **argv);

int main(int argc, char **argv);

int main(int argc, char **argv) {
  return PROGRAM(argc, argv);
}
