/* Made at build time by cmake/fingerprint.cmake. */
#ifndef TG_BIND_FINGERPRINT_H
#define TG_BIND_FINGERPRINT_H

/* Another for other sources of the engine or the standard library: what answers to queries depend on beside the
 * plugins. */
extern const char tg_fingerprint[];

#endif
