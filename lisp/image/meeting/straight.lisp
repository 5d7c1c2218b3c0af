;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Opening a file whose name has no links in it, so that what was opened needn't be checked.

(cl:in-package "AGENT-Q-IMAGE")

;; Linux can refuse to follow links when it opens a file. Then what it has opened is what the name
;; says, and needs no look at the descriptor, which takes as long as opening. Swapping files and
;; directories meanwhile gains nothing: each part of the name was valid when the system came to it.
;; Names with characters that some file systems take for others, or that look like short names, go
;; the usual way.

(defun straight-octets (name)
  "The octets of NAME, zero-terminated for C, if the name alone tells where it leads; else NIL."
  (declare (type (simple-array character (*)) name))
  (let* ((length (length name)) (start 1)
         (octets (make-array (1+ length) :element-type '(unsigned-byte 8) :initial-element 0)))
    (declare (type fixnum start))
    (flet ((part-p (end)
             (case (- end start)
               (0 nil)
               (1 (char/= (schar name start) #\.))
               (2 (not (char= (schar name start) (schar name (1+ start)) #\.)))
               (t t))))
      (and (plusp length)
           (char= (schar name 0) #\/)
           (loop for index of-type fixnum from 0 below length
                 for character = (schar name index)
                 always (and (char<= #\Space character #\})
                             (or (char/= character #\/) (= index 0) (part-p index)))
                 do (setf (aref octets index) (char-code character))
                    (when (char= character #\/) (setf start (1+ index))))
           (part-p length)
           octets))))

(defun straight-opener ()
  "A function that opens a file, given the octets of its name and flags, unless the name has a link
in it: returns the descriptor, or -1. NIL if the system can't do that."
  (let ((address (and #-linux nil
                      #-(or x86-64 arm64) nil
                      (unfiltered-p)
                      (internal "SB-SYS" "FIND-DYNAMIC-FOREIGN-SYMBOL-ADDRESS" "syscall"))))
    (and address
         (funcall
          (compile nil (let ((*package* (find-package "COMMON-LISP-USER")))
                         (read-from-string
                          "(lambda (address)
                             (declare (sb-ext:muffle-conditions sb-ext:compiler-note))
                             (let ((sap (sb-sys:int-sap address)))
                               (lambda (name flags)
                                 (declare (type (simple-array (unsigned-byte 8) (*)) name)
                                          (type (unsigned-byte 31) flags))
                                 ;; struct open_how: flags, mode, RESOLVE_NO_SYMLINKS and _NO_MAGICLINKS
                                 (let ((how (make-array 3 :element-type '(unsigned-byte 64)
                                                          :initial-element 0)))
                                   (setf (aref how 0) flags (aref how 2) 6)
                                   (sb-sys:with-pinned-objects (name how)
                                     ;; openat2, AT_FDCWD
                                     (sb-alien:alien-funcall
                                      (sb-alien:sap-alien
                                       sap (function sb-alien:long sb-alien:long sb-alien:int
                                                     sb-sys:system-area-pointer
                                                     sb-sys:system-area-pointer
                                                     sb-alien:unsigned-long))
                                      437 -100 (sb-sys:vector-sap name) (sb-sys:vector-sap how)
                                      24))))))")))
          address))))

(defun unfiltered-p ()
  "Whether the process may make any system call: a filter may kill one that makes others."
  (ignore-errors
   (with-open-file (stream "/proc/self/status")
     (let* ((text (make-string 4000)) (end (read-sequence text stream)))
       (search (format nil "Seccomp:~C0" #\Tab) text :end2 end)))))
