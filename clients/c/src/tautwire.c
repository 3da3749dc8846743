/* Tautwire for C99, see tautwire.h. Licence: MIT OR Apache-2.0. */

#if (defined(__unix__) || defined(__APPLE__)) && !defined(_POSIX_C_SOURCE) && !defined(__cplusplus)
#define _POSIX_C_SOURCE 200809L
#endif

#include "tautwire.h"

#if TW_POSIX
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#endif

#include "internal.h"

#include "utf8.c"

#include "reader.c"

#include "topic.c"

#include "reasons.c"

#if TW_TEXTS
#include "texts.c"
#endif

#include "names.c"

#include "properties.c"

#include "decode.c"

#include "encode.c"

#include "encode_publish.c"

#include "outbox.c"

#include "subscriptions.c"

#include "client.c"

#include "authentication.c"

#include "incoming.c"

#include "store.c"

#if TW_REQUESTS
#include "requests.c"
#endif

#if TW_SCRAM
#include "sha2.c"

#include "scram.c"
#endif

#if TW_LINK
#include "link.c"
#endif

#if TW_POSIX
#include "tcp.c"
#endif
