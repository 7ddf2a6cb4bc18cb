/* Installed at the path of the header in version 0.1; prints the necessary change. */
#error "Tandem's header has moved: #include <tandem/tandem.h> instead of <tandem.h>"
