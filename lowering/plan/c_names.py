"""Names of the C library, which no C function of a program may have.

A kernel is a C function. In an executable it takes the place of a library's function of the same
name, and the header that declares that one does not compile with it.
"""

from __future__ import annotations

import re

FAMILIES = re.compile(r"acl.*|(aio|posix|pthread)_.*|.*_t")
"""Names of one library by their prefix, and types of C and POSIX."""

VARIANTS = re.compile(r"(.+?)(f|l|f32|f64|f128|f32x|f64x|64|_r|_l|_unlocked|_np)")
"""Variants of a function for other types, for threads, locales and platforms."""

NAMES = frozenset(
    """
    a64l abort abs accept accept4 access acct acos acosh addmntent addseverity adjtime adjtimex
    advance alarm aligned_alloc alloca alphasort arc4random arc4random_buf arc4random_uniform
    arch_prctl argp_err_exit_status argp_error argp_failure argp_help argp_parse
    argp_program_bug_address argp_program_version argp_program_version_hook argp_state_help
    argp_usage argz_add argz_add_sep argz_append argz_count argz_create argz_create_sep argz_delete
    argz_extract argz_insert argz_next argz_replace argz_stringify asctime asin asinh asprintf
    at_quick_exit atan atan2 atanh atexit atof atoi atol authdes_create authdes_getucred
    authdes_pk_create authnone_create authunix_create authunix_create_default backtrace
    backtrace_symbols backtrace_symbols_fd basename bcmp bcopy bdflush bind bind_textdomain_codeset
    bindresvport bindtextdomain brk bsd_signal bsearch btowc bzero c16rtomb c32rtomb c8rtomb cabs
    cacos cacosh call_once calloc callrpc canonicalize canonicalize_file_name capget capset carg
    casin casinh catan catanh catclose catgets catopen cbc_crypt cbrt ccos ccosh ceil cexp
    cfgetispeed cfgetospeed cfmakeraw cfree cfsetispeed cfsetospeed cfsetspeed chdir chflags chmod
    chown chroot cimag clearenv clearerr clnt_broadcast clnt_create clnt_pcreateerror clnt_perrno
    clnt_perror clnt_spcreateerror clnt_sperrno clnt_sperror clntraw_create clnttcp_create
    clntudp_bufcreate clntudp_create clntunix_create clock clock_adjtime clock_getcpuclockid
    clock_getres clock_gettime clock_nanosleep clock_settime clog clog10 clone close close_range
    closedir closefrom closelog cnd_broadcast cnd_destroy cnd_init cnd_signal cnd_timedwait cnd_wait
    confstr conj connect copy_file_range copysign cos cosh cpow cproj creal creat create_module csin
    csinh csqrt ctan ctanh ctermid ctime cuserid daddl daemon daylight dcgettext dcngettext ddivl
    delete_module des_setparity dfmal dgettext difftime dirfd dirname div dl_iterate_phdr dladdr
    dladdr1 dlclose dlerror dlinfo dlmopen dlopen dlsym dlvsym dmull dn_comp dn_expand dn_skipname
    dngettext dprintf drand48 drem dsqrtl dsubl dup dup2 dup3 duplocale dysize eaccess ecb_crypt
    ecvt endaliasent endfsent endgrent endhostent endmntent endnetent endnetgrent endprotoent
    endpwent endrpcent endservent endsgent endspent endttyent endusershell endutent endutxent
    environ envz_add envz_entry envz_get envz_merge envz_remove envz_strip epoll_create
    epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait erand48 erf erfc err errno error
    error_at_line error_message_count error_one_per_line error_print_progname errx ether_aton
    ether_hostton ether_line ether_ntoa ether_ntohost euidaccess eventfd eventfd_read eventfd_write
    execl execle execlp execv execve execveat execvp execvpe exit exp exp10 exp2 explicit_bzero
    expm1 fabs faccessat fadd fallocate fanotify_init fanotify_mark fattach fchdir fchflags fchmod
    fchmodat fchown fchownat fclose fcloseall fcntl fcvt fdatasync fdetach fdim fdiv fdopen
    fdopendir feclearexcept fedisableexcept feenableexcept fegetenv fegetexcept fegetexceptflag
    fegetmode fegetround feholdexcept feof feraiseexcept ferror fesetenv fesetexcept fesetexceptflag
    fesetmode fesetround fetestexcept fetestexceptflag feupdateenv fexecve fflush ffma ffs fgetc
    fgetgrent fgetpos fgetpwent fgets fgetsgent fgetspent fgetwc fgetws fgetxattr fileno finite
    flistxattr flock flockfile floor fma fmax fmaximum fmaximum_mag fmaximum_mag_num fmaximum_num
    fmaxmag fmemopen fmin fminimum fminimum_mag fminimum_mag_num fminimum_num fminmag fmod fmtmsg
    fmul fnmatch fopen fopencookie fork forkpty fpathconf fpclassify fprintf fputc fputs fputwc
    fputws fread free freeaddrinfo freeifaddrs freelocale fremovexattr freopen frexp fromfp fromfpx
    fscanf fsconfig fseek fseeko fsetpos fsetxattr fsmount fsopen fspick fsqrt fstat fstatat fstatfs
    fstatvfs fsub fsync ftell ftello ftime ftok ftruncate ftrylockfile fts64_children fts64_close
    fts64_open fts64_read fts64_set fts_children fts_close fts_open fts_read fts_set ftw funlockfile
    futimens futimes futimesat fwide fwprintf fwrite fwscanf gai_cancel gai_error gai_strerror
    gai_suspend gamma gcvt get_avphys_pages get_current_dir_name get_kernel_syms get_myaddress
    get_nprocs get_nprocs_conf get_phys_pages getaddrinfo getaddrinfo_a getaliasbyname getaliasent
    getauxval getc getchar getcontext getcpu getcwd getdate getdate_err getdelim getdents64
    getdirentries getdomainname getdtablesize getegid getentropy getenv geteuid getfsent getfsfile
    getfsspec getgid getgrent getgrgid getgrnam getgrouplist getgroups gethostbyaddr gethostbyname
    gethostbyname2 gethostent gethostid gethostname getifaddrs getipv4sourcefilter getitimer getline
    getloadavg getlogin getmntent getmsg getnameinfo getnetbyaddr getnetbyname getnetent getnetgrent
    getnetname getopt getopt_long getopt_long_only getpagesize getpass getpayload getpeername
    getpgid getpgrp getpid getpmsg getppid getpriority getprotobyname getprotobynumber getprotoent
    getpt getpublickey getpw getpwent getpwnam getpwuid getrandom getresgid getresuid getrlimit
    getrpcbyname getrpcbynumber getrpcent getrpcport getrusage gets getsecretkey getservbyname
    getservbyport getservent getsgent getsgnam getsid getsockname getsockopt getsourcefilter
    getspent getspnam getsubopt gettext gettid gettimeofday getttyent getttynam getuid getusershell
    getutent getutid getutline getutmp getutmpx getutxent getutxid getutxline getw getwc getwchar
    getwd getxattr glob glob_pattern_p globfree gmtime gnu_dev_major gnu_dev_makedev gnu_dev_minor
    gnu_get_libc_release gnu_get_libc_version grantpt group_member gsignal gtty h_errlist h_nerr
    hasmntopt hcreate hdestroy herror host2netname hsearch hstrerror htonl htons hypot iconv
    iconv_close iconv_open if_freenameindex if_indextoname if_nameindex if_nametoindex ilogb imaxabs
    imaxdiv in6addr_any in6addr_loopback index inet6_opt_append inet6_opt_find inet6_opt_finish
    inet6_opt_get_val inet6_opt_init inet6_opt_next inet6_opt_set_val inet6_option_alloc
    inet6_option_append inet6_option_find inet6_option_init inet6_option_next inet6_option_space
    inet6_rth_add inet6_rth_getaddr inet6_rth_init inet6_rth_reverse inet6_rth_segments
    inet6_rth_space inet_addr inet_aton inet_lnaof inet_makeaddr inet_netof inet_network
    inet_nsap_addr inet_nsap_ntoa inet_ntoa inet_ntop inet_pton init_module initgroups initstate
    innetgr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch insque ioctl ioperm iopl
    iruserok iruserok_af isalnum isalpha isascii isastream isatty isblank iscntrl isctype isdigit
    isfdtype isfinite isgraph isgreater isgreaterequal isinf isless islessequal islessgreater
    islower isnan isnormal isprint ispunct isspace isunordered isupper iswalnum iswalpha iswblank
    iswcntrl iswctype iswdigit iswgraph iswlower iswprint iswpunct iswspace iswupper iswxdigit
    isxdigit j0 j1 jn jrand48 key_decryptsession key_decryptsession_pk key_encryptsession
    key_encryptsession_pk key_gendes key_get_conv key_secretkey_is_set key_setnet key_setsecret kill
    killpg klogctl l64a labs lchmod lchown lckpwdf lcong48 ldexp ldiv lfind lgamma lgetxattr link
    linkat lio_listio listen listxattr llabs lldiv llistxattr llogb llrint llround llseek loc1 loc2
    localeconv localtime lockf lockf64 locs log log10 log1p log2 logb login login_tty logout logwtmp
    longjmp lrand48 lremovexattr lrint lround lsearch lseek lsetxattr lstat lutimes madvise
    makecontext mallinfo mallinfo2 malloc malloc_info malloc_stats malloc_trim malloc_usable_size
    mallopt mallwatch matherr mblen mbrlen mbrtoc16 mbrtoc32 mbrtoc8 mbrtowc mbsinit mbsnrtowcs
    mbsrtowcs mbstowcs mbtowc mcheck mcheck_check_all mcheck_pedantic mcount memalign memccpy memchr
    memcmp memcpy memfd_create memfrob memmem memmove mempcpy memrchr memset mincore mkdir mkdirat
    mkdtemp mkfifo mkfifoat mknod mknodat mkostemp mkostemps mkstemp mkstemps mktemp mktime mlock
    mlock2 mlockall mmap modf modify_ldt moncontrol monstartup mount mount_setattr move_mount mprobe
    mprotect mq_close mq_getattr mq_notify mq_open mq_receive mq_send mq_setattr mq_timedreceive
    mq_timedsend mq_unlink mrand48 mremap msgctl msgget msgrcv msgsnd msync mtrace mtx_destroy
    mtx_init mtx_lock mtx_timedlock mtx_trylock mtx_unlock munlock munlockall munmap muntrace
    name_to_handle_at nan nanosleep nearbyint netname2host netname2user newlocale nextafter nextdown
    nexttoward nextup nfsservctl nftw ngettext nice nl_langinfo nrand48 ns_name_compress
    ns_name_ntop ns_name_pack ns_name_pton ns_name_skip ns_name_uncompress ns_name_unpack ntohl
    ntohs ntp_adjtime ntp_gettime ntp_gettimex obstack_alloc_failed_handler obstack_exit_failure
    obstack_free obstack_printf obstack_vprintf on_exit open open_by_handle_at open_memstream
    open_tree open_wmemstream openat opendir openlog openpty optarg opterr optind optopt
    parse_printf_format passwd2des pathconf pause pclose perror personality pidfd_getfd pidfd_open
    pidfd_send_signal pipe pipe2 pivot_root pkey_alloc pkey_free pkey_get pkey_mprotect pkey_set
    pmap_getmaps pmap_getport pmap_rmtcall pmap_set pmap_unset poll popen pow pow10 ppoll prctl
    pread preadv preadv2 preadv64v2 printf printf_size printf_size_info prlimit process_madvise
    process_mrelease process_vm_readv process_vm_writev profil program_invocation_name
    program_invocation_short_name pselect psiginfo psignal ptrace ptsname putc putchar putenv
    putgrent putmsg putpmsg putpwent puts putsgent putspent pututline pututxline putw putwc putwchar
    pvalloc pwrite pwritev pwritev2 pwritev64v2 qecvt qfcvt qgcvt qsort query_module quick_exit
    quotactl raise rand random rawmemchr rcmd rcmd_af re_comp re_compile_fastmap re_compile_pattern
    re_exec re_match re_match_2 re_max_failures re_search re_search_2 re_set_registers re_set_syntax
    re_syntax_options read readahead readdir readlink readlinkat readv realloc reallocarray realpath
    reboot recv recvfrom recvmmsg recvmsg regcomp regerror regexec regfree register_printf_function
    register_printf_modifier register_printf_specifier register_printf_type registerrpc remainder
    remap_file_pages remove removexattr remque remquo rename renameat renameat2 res_dnok res_hnok
    res_mailok res_mkquery res_nmkquery res_nquery res_nquerydomain res_nsearch res_nsend res_ownok
    res_query res_querydomain res_search res_send revoke rewind rewinddir rexec rexec_af
    rexecoptions rindex rint rmdir round roundeven rpc_createerr rpmatch rresvport rresvport_af
    rtime ruserok ruserok_af ruserpass sbrk scalb scalbln scalbn scandir scandirat scanf
    sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getcpu sched_getparam
    sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setparam sched_setscheduler
    sched_yield secure_getenv seed48 seekdir select sem_clockwait sem_close sem_destroy sem_getvalue
    sem_init sem_open sem_post sem_timedwait sem_trywait sem_unlink sem_wait semctl semget semop
    semtimedop send sendfile sendmmsg sendmsg sendto setaliasent setbuf setbuffer setcontext
    setdomainname setegid setenv seteuid setfsent setfsgid setfsuid setgid setgrent setgroups
    sethostent sethostid sethostname setipv4sourcefilter setitimer setjmp setlinebuf setlocale
    setlogin setlogmask setmntent setnetent setnetgrent setns setpayload setpayloadsig setpgid
    setpgrp setpriority setprotoent setpwent setregid setresgid setresuid setreuid setrlimit
    setrpcent setservent setsgent setsid setsockopt setsourcefilter setspent setstate settimeofday
    setttyent setuid setusershell setutent setutxent setvbuf setxattr sgetsgent sgetspent shm_open
    shm_unlink shmat shmctl shmdt shmget shutdown sigabbrev_np sigaction sigaddset sigaltstack
    sigandset sigblock sigdelset sigdescr_np sigemptyset sigfillset siggetmask sighold sigignore
    siginterrupt sigisemptyset sigismember siglongjmp signal signalfd signbit signgam significand
    sigorset sigpause sigpending sigprocmask sigqueue sigrelse sigreturn sigset sigsetmask sigstack
    sigsuspend sigtimedwait sigvec sigwait sigwaitinfo sin sincos sinh sleep snprintf sockatmark
    socket socketpair splice sprintf sprofil sqrt srand srand48 srandom sscanf ssignal sstk stat
    statfs statvfs statx stderr stdin stdout step stime stpcpy stpncpy strcasecmp strcasestr strcat
    strchr strchrnul strcmp strcoll strcpy strcspn strdup strerror strerrordesc_np strerrorname_np
    strfmon strfromd strfromf strfromf128 strfromf32 strfromf32x strfromf64 strfromf64x strfroml
    strfry strftime strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strptime
    strrchr strsep strsignal strspn strstr strtod strtof strtof128 strtof32 strtof32x strtof64
    strtof64x strtoimax strtok strtol strtold strtoq strtoul strtoumax strtouq strverscmp strxfrm
    stty svc_exit svc_fdset svc_getreq svc_getreq_common svc_getreq_poll svc_getreqset
    svc_max_pollfd svc_pollfd svc_register svc_run svc_sendreply svc_unregister svcauthdes_stats
    svcerr_auth svcerr_decode svcerr_noproc svcerr_noprog svcerr_progvers svcerr_systemerr
    svcerr_weakauth svcfd_create svcraw_create svctcp_create svcudp_bufcreate svcudp_create
    svcudp_enablecache svcunix_create svcunixfd_create swab swapcontext swapoff swapon swprintf
    swscanf symlink symlinkat sync sync_file_range syncfs sys_errlist sys_nerr sys_sigabbrev
    sys_siglist syscall sysconf sysctl sysinfo syslog system sysv_signal tan tanh tcdrain tcflow
    tcflush tcgetattr tcgetpgrp tcgetsid tcsendbreak tcsetattr tcsetpgrp tdelete tdestroy tee
    telldir tempnam textdomain tfind tgamma tgkill thrd_create thrd_current thrd_detach thrd_equal
    thrd_exit thrd_join thrd_sleep thrd_yield time timegm timelocal timer_create timer_delete
    timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime
    times timespec_get timespec_getres timezone tmpfile tmpnam toascii tolower totalorder
    totalordermag toupper towctrans towlower towupper tr_break trunc truncate tsearch tss_create
    tss_delete tss_get tss_set ttyname ttyslot twalk tzname tzset ualarm ufromfp ufromfpx ulckpwdf
    ulimit umask umount umount2 uname ungetc ungetwc unlink unlinkat unlockpt unsetenv unshare
    updwtmp updwtmpx uselib uselocale user2netname usleep ustat utime utimensat utimes utmpname
    utmpxname va_arg va_copy va_end va_list va_start valloc vasprintf vdprintf verr verrx
    versionsort vfork vfprintf vfscanf vfwprintf vfwscanf vhangup vlimit vmsplice vprintf vscanf
    vsnprintf vsprintf vsscanf vswprintf vswscanf vsyslog vtimes vwarn vwarnx vwprintf vwscanf wait
    wait3 wait4 waitid waitpid warn warnx wcpcpy wcpncpy wcrtomb wcscasecmp wcscat wcschr wcschrnul
    wcscmp wcscoll wcscpy wcscspn wcsdup wcsftime wcslen wcsncasecmp wcsncat wcsncmp wcsncpy wcsnlen
    wcsnrtombs wcspbrk wcsrchr wcsrtombs wcsspn wcsstr wcstod wcstof wcstof128 wcstof32 wcstof32x
    wcstof64 wcstof64x wcstoimax wcstok wcstol wcstold wcstombs wcstoq wcstoul wcstoumax wcstouq
    wcswcs wcswidth wcsxfrm wctob wctomb wctrans wctype wcwidth wmemchr wmemcmp wmemcpy wmemmove
    wmempcpy wmemset wordexp wordfree wprintf write writev wscanf xdecrypt xdr_accepted_reply
    xdr_array xdr_authdes_cred xdr_authdes_verf xdr_authunix_parms xdr_bool xdr_bytes xdr_callhdr
    xdr_callmsg xdr_char xdr_cryptkeyarg xdr_cryptkeyarg2 xdr_cryptkeyres xdr_des_block xdr_double
    xdr_enum xdr_float xdr_free xdr_getcredres xdr_hyper xdr_int xdr_key_netstarg xdr_key_netstres
    xdr_keybuf xdr_keystatus xdr_long xdr_netnamestr xdr_netobj xdr_opaque xdr_opaque_auth xdr_pmap
    xdr_pmaplist xdr_pointer xdr_reference xdr_rejected_reply xdr_replymsg xdr_rmtcall_args
    xdr_rmtcallres xdr_short xdr_sizeof xdr_string xdr_u_char xdr_u_hyper xdr_u_int xdr_u_long
    xdr_u_short xdr_union xdr_unixcred xdr_vector xdr_void xdr_wrapstring xdrmem_create
    xdrrec_create xdrrec_endofrecord xdrrec_eof xdrrec_skiprecord xdrstdio_create xencrypt
    xprt_register xprt_unregister y0 y1 yn
    """.split()
)
"""Functions and variables that glibc 2.36 (libc and libm) exports, without those of `FAMILIES` and
`VARIANTS`, and macros of C17 that stand for functions."""


def is_c_name(name: str) -> bool:
    """Returns whether a name belongs to the C library, to ACL or to the symmetric memory."""
    variant = VARIANTS.fullmatch(name)
    return (
        name in NAMES
        or FAMILIES.fullmatch(name) is not None
        or (variant is not None and variant[1] in NAMES)
    )
