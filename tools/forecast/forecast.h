/* `tandem forecast`. */
#ifndef TOOLS_FORECAST_FORECAST_H
#define TOOLS_FORECAST_FORECAST_H

/* Arguments after the command's name; answers the exit status. */
int forecast_command(int argc, char **argv);

#endif
