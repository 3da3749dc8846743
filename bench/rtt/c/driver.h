/* What driver.c asks of a library, and gives it. See README.md for what a driver does. */
#ifndef RTT_DRIVER_H
#define RTT_DRIVER_H

#include <stddef.h>

/* Connects with a clean session, MQTT 3.1.1, without a keep alive. */
void library_connect(const char *host, const char *port, const char *client_id, int qos);
void library_subscribe(const char *filter);
void library_publish(const char *topic, const void *payload, size_t len);
/* Waits until something comes, and calls on_message() for each message. */
void library_step(void);

void on_message(const void *payload, size_t len);

/* Ends the program. */
void die(const char *what);

#endif
