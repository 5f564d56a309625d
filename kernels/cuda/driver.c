/* See driver.h. */
#include "kernels/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct cu_driver driver;
static struct err why; /* code 0: driver is good */

static const struct {
	const char *symbol;
	size_t at;
} functions[] = {
#define X(name, symbol, parameters) { #symbol, offsetof(struct cu_driver, name) },
	CU_FUNCTIONS(X)
#undef X
};

static int find_functions(void *library)
{
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		void *f = dlsym(library, functions[i].symbol);

		if (!f && !i)
			return err_set(&why, ERR_DEVICE,
				"%s is no CUDA driver: it has no %s; install NVIDIA's driver, or use --backend cpu",
				driver.path, functions[i].symbol);
		if (!f)
			return err_set(&why, ERR_DEVICE,
				"the CUDA driver %s has no %s: it is older than CUDA %d.%d, which is needed; "
				"update the driver, or use --backend cpu",
				driver.path, functions[i].symbol, CU_DRIVER_MIN / 1000, CU_DRIVER_MIN % 1000 / 10);
		*(void **)((char *)&driver + functions[i].at) = f;
	}
	return 0;
}

static int check_version(void)
{
	CUresult r = driver.driver_version(&driver.version);

	if (r)
		return cu_error(&driver, r, "asking the CUDA driver for its version", &why);
	if (driver.version < CU_DRIVER_MIN)
		return err_set(&why, ERR_DEVICE,
			"the CUDA driver is of version %d.%d; at least %d.%d is needed; update it, or use "
			"--backend cpu",
			driver.version / 1000, driver.version % 1000 / 10, CU_DRIVER_MIN / 1000,
			CU_DRIVER_MIN % 1000 / 10);
	r = driver.init(0);
	if (r == CU_ERROR_NO_DEVICE)
		return err_set(&why, ERR_DEVICE,
			"the CUDA driver %d.%d finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES; or use "
			"--backend cpu",
			driver.version / 1000, driver.version % 1000 / 10);
	return r ? cu_error(&driver, r, "starting the CUDA driver", &why) : 0;
}

static void open_once(void)
{
	const char *named = getenv("CUTAWAY_CUDA_DRIVER");
	void *library;

	driver.named = named && *named;
	driver.path = driver.named ? named : "libcuda.so.1";
	library = dlopen(driver.path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		/* only for a library that the environment names the reason is worth reporting */
		err_set(&why, ERR_DEVICE,
			"there is no CUDA driver (%s): NVIDIA's driver for the GPU brings it; or use --backend "
			"cpu",
			driver.named ? dlerror() : driver.path);
		return;
	}
	if (find_functions(library) || check_version())
		dlclose(library);
}

const struct cu_driver *cu_driver_open(struct err *e)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_once);
	if (!why.code)
		return &driver;
	err_set(e, why.code, "%s", why.text);
	return NULL;
}

const char *cu_result(const struct cu_driver *d, CUresult r, char buf[static CU_RESULT_TEXT])
{
	const char *name = NULL, *text = NULL;

	if (d->error_name(r, &name) || !name)
		name = "an error of unknown name";
	if (d->error_string(r, &text) || !text)
		text = "";
	snprintf(buf, CU_RESULT_TEXT, "%s (%d%s%s)", name, (int)r, *text ? ": " : "", text);
	return buf;
}

int cu_error(const struct cu_driver *d, CUresult r, const char *what, struct err *e)
{
	static const struct {
		CUresult r;
		const char *hint;
	} hints[] = {
		{ CU_ERROR_OUT_OF_MEMORY, "others use its memory: see nvidia-smi" },
		{ CU_ERROR_DEVICE_UNAVAILABLE,
			"another program has the GPU for itself, or it is switched off for programs" },
		{ CU_ERROR_SYSTEM_NOT_READY,
			"a service of the driver does not run yet, such as the fabric manager" },
		{ CU_ERROR_SYSTEM_DRIVER_MISMATCH,
			"the driver's library and its module in the kernel differ: restart the machine, or "
			"install the driver again" },
	};
	const char *hint = "nvidia-smi tells whether the GPU is well";
	char buf[CU_RESULT_TEXT];

	for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
		if (hints[i].r == r)
			hint = hints[i].hint;
	return err_set(
		e, ERR_DEVICE, "%s failed: %s; %s; or use --backend cpu", what, cu_result(d, r, buf), hint);
}
