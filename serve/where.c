/* Addresses: that of the server for people, those of clients, and whether strangers can come. See
 * serve_impl.h. */
#include "serve/serve_impl.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

/* As IPv4, in network order; false: it is none. */
static bool as_ipv4(const struct sockaddr *a, uint32_t *out)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;

	if (a->sa_family == AF_INET)
		*out = ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr;
	else if (a->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six))
		memcpy(out, six->s6_addr + 12, sizeof *out);
	else
		return false;
	return true;
}

static bool is_loopback(const struct sockaddr *a)
{
	uint32_t four;

	if (as_ipv4(a, &four))
		return ntohl(four) >> 24 == 127;
	return a->sa_family == AF_INET6 &&
		   IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static bool is_any(const struct sockaddr *a)
{
	uint32_t four;

	if (as_ipv4(a, &four))
		return !four;
	return a->sa_family == AF_INET6 &&
		   IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

void where_text(const struct sockaddr *a, char out[INET6_ADDRSTRLEN])
{
	uint32_t four;

	*out = '\0';
	if (is_loopback(a))
		return;
	if (as_ipv4(a, &four))
		inet_ntop(AF_INET, &four, out, INET6_ADDRSTRLEN);
	else if (a->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, out,
			INET6_ADDRSTRLEN);
}

/* The first IPv4 address at which others can reach this machine; "": none. */
static void first_address(char out[INET6_ADDRSTRLEN])
{
	struct ifaddrs *all;

	*out = '\0';
	if (getifaddrs(&all))
		return;
	for (const struct ifaddrs *i = all; i && !*out; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && i->ifa_flags & IFF_UP)
			where_text(i->ifa_addr, out);
	freeifaddrs(all);
}

void serve_url(const struct serve *s, char *out, size_t cap)
{
	char any[INET6_ADDRSTRLEN] = "";
	const char *host = s->o.host;
	bool six;

	if (is_any((const struct sockaddr *)&s->at))
		first_address(any);
	host = *any ? any : host;
	six = strchr(host, ':');
	snprintf(out, cap, "http://%s%s%s:%d/v1", six ? "[" : "", host, six ? "]" : "", serve_port(s));
}

bool serve_is_open(const struct serve *s)
{
	return !s->o.api_key && !is_loopback((const struct sockaddr *)&s->at);
}
