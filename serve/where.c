/* Addresses: that of the server for people, those of clients, and whether strangers can come. See
 * serve_impl.h. */
#include "serve/serve_impl.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

/* An IPv4 address in an IPv6 one, if it is of that kind; of another kind one that nobody has. */
static struct in6_addr as_ipv6(const struct sockaddr *a)
{
	struct in6_addr six = { .s6_addr = { [10] = 0xff, 0xff } };

	if (a->sa_family == AF_INET6)
		return ((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
	if (a->sa_family != AF_INET)
		return (struct in6_addr){ .s6_addr = { 0xff } };
	memcpy(six.s6_addr + 12, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
	return six;
}

static bool is_loopback(const struct sockaddr *a)
{
	const struct in6_addr six = as_ipv6(a);

	return IN6_IS_ADDR_V4MAPPED(&six) ? six.s6_addr[12] == 127 : IN6_IS_ADDR_LOOPBACK(&six);
}

static bool is_any(const struct sockaddr *a)
{
	static const uint8_t none[4];
	const struct in6_addr six = as_ipv6(a);

	return IN6_IS_ADDR_V4MAPPED(&six) ? !memcmp(six.s6_addr + 12, none, 4)
									  : IN6_IS_ADDR_UNSPECIFIED(&six);
}

void where_text(const struct sockaddr *a, char out[INET6_ADDRSTRLEN])
{
	const struct in6_addr six = as_ipv6(a);

	*out = '\0';
	if (is_loopback(a) || (a->sa_family != AF_INET && a->sa_family != AF_INET6))
		return;
	if (IN6_IS_ADDR_V4MAPPED(&six))
		inet_ntop(AF_INET, six.s6_addr + 12, out, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, &six, out, INET6_ADDRSTRLEN);
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
