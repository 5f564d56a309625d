/* Who is answered: who knows the key; or, where none is asked for, whoever is no web page of
 * elsewhere. A browser lets any page send requests to a server of this machine, and says in Origin
 * which; a page whose name resolves to this machine (DNS rebinding) says its own name in Host. See
 * serve_impl.h. */
#include "serve/serve_impl.h"

#include <arpa/inet.h>

#include <nettle/memops.h>
#include <nettle/sha2.h>

static const char *header(const struct job *j, const char *name)
{
	return MHD_lookup_connection_value(j->connection, MHD_HEADER_KIND, name);
}

static void digest(const char *text, uint8_t out[SHA256_DIGEST_SIZE])
{
	struct sha256_ctx ctx;

	sha256_init(&ctx);
	sha256_update(&ctx, strlen(text), (const uint8_t *)text);
	sha256_digest(&ctx, SHA256_DIGEST_SIZE, out);
}

/* Keys are compared by their hashes and in constant time, so that neither length nor beginning
 * shows. */
static bool has_key(const struct job *j)
{
	static const char word[] = "Bearer ";
	const char *given = header(j, MHD_HTTP_HEADER_AUTHORIZATION);
	uint8_t a[SHA256_DIGEST_SIZE], b[SHA256_DIGEST_SIZE];

	if (given && !strncasecmp(given, word, sizeof word - 1))
		given += sizeof word - 1;
	else
		given = header(j, "x-api-key"); /* Anthropic's */
	if (!given)
		return false;
	digest(given, a);
	digest(j->s->o.api_key, b);
	return memeql_sec(a, b, sizeof a);
}

/* The host of "HOST:PORT", without the brackets of an IPv6 address; false: it is too long. */
static bool host_of(const char *text, char out[256])
{
	const bool six = *text == '[';
	const size_t n = strcspn(text += six, six ? "]" : ":");
	const char *port = text + n + (six && text[n]);

	/* "user@" before a name is no part of it, and behind an address there is only a port */
	if (!n || n >= 256 || strchr(text, '@') || (six && !text[n]) ||
		(*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")])))
		return false;
	memcpy(out, text, n);
	out[n] = '\0';
	return true;
}

static bool ends_with(const char *text, const char *end)
{
	const size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcasecmp(text + n - m, end);
}

/* Names that no stranger can have resolved to this machine: addresses, --host, those of this
 * network alone; and those of pages that may ask anyway. */
static bool is_own_host(const struct serve *s, const char *text)
{
	struct in6_addr a;
	char host[256], page[256];

	if (!text)
		return true; /* no browser */
	if (!host_of(text, host))
		return false;
	for (int i = 0; s->o.cors && s->o.cors->text[i]; i++) {
		const char *origin = s->o.cors->text[i], *at = strstr(origin, "://");

		if (!strcmp(origin, "*") || (at && host_of(at + 3, page) && !strcasecmp(host, page)))
			return true;
	}
	return inet_pton(AF_INET, host, &a) == 1 || inet_pton(AF_INET6, host, &a) == 1 ||
		   !strcasecmp(host, s->o.host) || !strchr(host, '.') || ends_with(host, ".localhost") ||
		   ends_with(host, ".local") || ends_with(host, ".internal");
}

/* "SCHEME://HOST:PORT" of this server, or of another on this machine. */
static bool is_own_origin(const char *origin, const char *host)
{
	const char *at = strstr(origin, "://");
	char name[256];

	if (!at)
		return false;
	at += 3;
	return (host && !strcasecmp(at, host)) ||
		   (host_of(at, name) && (!strcasecmp(name, "localhost") || !strcmp(name, "127.0.0.1") ||
									 !strcmp(name, "::1")));
}

const char *enter_origin(const struct job *j)
{
	const char *origin = header(j, MHD_HTTP_HEADER_ORIGIN);

	const struct setting_stops *c = j->s->o.cors;

	for (int i = 0; origin && c && c->text[i]; i++)
		if (!strcmp(c->text[i], "*") || !strcasecmp(c->text[i], origin))
			return origin;
	return NULL;
}

unsigned enter_refused(const struct job *j, const char **why)
{
	const char *origin = header(j, MHD_HTTP_HEADER_ORIGIN);
	const char *host = header(j, MHD_HTTP_HEADER_HOST);

	if (j->s->o.api_key) {
		*why = "a valid API key is needed";
		return !j->route || j->route->open || has_key(j) ? 0 : MHD_HTTP_UNAUTHORIZED;
	}
	*why =
		"this name is not the server's: without --api-key it is asked by its address, as localhost "
		"or by a name of --host or --cors";
	if (!is_own_host(j->s, host))
		return MHD_HTTP_FORBIDDEN;
	*why = "pages of this origin are not answered: see --cors and --api-key of cutaway serve";
	return !origin || is_own_origin(origin, host) || enter_origin(j) ? 0 : MHD_HTTP_FORBIDDEN;
}

/* A page may send text to anyone without asking first; curl -d says that its data is a form. */
bool enter_takes(const struct job *j, const char **why)
{
	static const char *const taken[] = { "application/json", "application/x-www-form-urlencoded" };
	const char *type = header(j, MHD_HTTP_HEADER_CONTENT_TYPE);
	const char *coding = header(j, MHD_HTTP_HEADER_CONTENT_ENCODING);
	const size_t n = type ? strcspn(type, "; \t") : 0;

	*why = "the body's Content-Encoding is to be identity, or none";
	if (coding && *coding && strcasecmp(coding, "identity") != 0)
		return false;
	*why = "the body's Content-Type is to be application/json";
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		if (n == strlen(taken[i]) && !strncasecmp(type, taken[i], n))
			return true;
	return !n || strcmp(j->route->method, MHD_HTTP_METHOD_POST) != 0;
}
