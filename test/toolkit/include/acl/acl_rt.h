// Host types that the symmetric-memory library's common header names.
#ifndef TOOLKIT_ACL_RT_H_
#define TOOLKIT_ACL_RT_H_

using aclError = int;
using aclrtStream = void*;

#endif  // TOOLKIT_ACL_RT_H_
