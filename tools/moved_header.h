/* Installed where programs of 0.1 look for the one header: says what to change, once. */
#error "Tandem's header has moved: #include <tandem/tandem.h> instead of <tandem.h>"
