/* The headers to copy work in C++, too: their declarations have C linkage. Another linkage here would be a conflict. */
#include "flash_file.h"
#include "flash_log.h"
#include "tls.h"
#include "websocket.h"

extern "C" {
tw_store flash_log_store(flash_log *log);
void flash_file_close(flash_file *file);
tw_transport tls_transport(tls *connection);
tw_transport websocket_transport(websocket *socket, const websocket_config *config);
}
