;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Opening files in a call. Private ones are asked about by the name of what was opened, not of what
;;; the program asked for: that may change from one moment to the next.

(cl:in-package "AGENT-Q-IMAGE")

;;; OPEN comes by UNIX-OPEN, where the descriptor is looked at. Handlers of the program's may run in the
;;; extent of OPEN, so no file that is opened there goes unseen.

(defstruct (opening (:type vector) (:copier nil))
  ;; What was in force around OPEN; returns from it the values that it is given in a list; and the
  ;; descriptor that needs no look any more.
  hold return descriptor)

(defun call-opening (watch hold function arguments)
  (let* ((opening (make-opening :hold hold
                                :return (lambda (values)
                                          (return-from call-opening (values-list values)))))
         (stream (call-covering watch hold (list :descriptor opening) function arguments)))
    (if (and (opening-descriptor opening)
             (eql (opening-descriptor opening) (opened-descriptor stream)))
        stream
        (multiple-value-bind (allowed values) (check-private watch (first hold) stream)
          (if allowed stream (values-list values))))))

(defun call-opening-natively (watch hold function arguments)
  "Open a file by its native name, as OPEN does."
  (let ((opening (find-if #'simple-vector-p (rest hold)))
        (descriptor (open-straight watch (first hold) arguments)))
    (when opening (setf (opening-descriptor opening) descriptor))
    (if descriptor
        (values descriptor 0)
        (let ((opened (multiple-value-list (call-opening-name watch hold function arguments))))
          (when (and opening (not (writing-flags-p (second arguments))))
            (setf (opening-descriptor opening) (first opened)))
          (values-list opened)))))

(defun call-opening-name (watch hold function arguments)
  (let ((opened (multiple-value-list
                 (if (fails-quietly-p arguments)
                     (call-covering watch hold '(:reading) function arguments)
                     (apply function arguments))))
        (opening (find-if #'simple-vector-p (rest hold))))
    (if (or (not (integerp (first opened)))
            ;; What OPEN does with a file that it writes, it has to do as well when that is denied.
            (and opening (writing-flags-p (second arguments))))
        (values-list opened)
        (multiple-value-bind (allowed values)
            (if opening
                (funcall (watch-call-in watch) (opening-hold opening)
                         (lambda () (check-private watch (first hold) (first opened))))
                (check-private watch (first hold) (first opened)))
          (cond (allowed (values-list opened))
                (opening (funcall (opening-return opening) values))
                (t (values-list values)))))))

(defun fails-quietly-p (arguments)
  "Whether nothing of the program's, as a handler, can run while the system opens a file by ARGUMENTS."
  (destructuring-bind (&optional name flags (mode 0) &rest more) arguments
    (and (simple-string-p name)
         (every (lambda (character) (< 0 (char-code character) 128)) name)
         (typep flags '(unsigned-byte 31))
         (typep mode '(unsigned-byte 31))
         (null more))))

;;; Names that lead straight to a file

;; Linux can refuse to follow links when it opens a file. Then what it has opened is what the name says,
;; and needs no look at the descriptor, which takes as long as opening. Nobody who swaps files and
;; directories meanwhile gains by that: each part of the name was called so when the system came to it.
;; Names with characters that some file systems take for others, or for a short name, go the usual way.

(defun straight-octets (name)
  "The octets of the text NAME, ended by a zero as C's are, if it says by itself where it leads to."
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

(defun open-straight (watch consent arguments)
  "The descriptor of the file that ARGUMENTS of UNIX-OPEN name, open for reading; NIL when it may be
private, or has to be opened in the usual way, which also tells why it can't be."
  (destructuring-bind (&optional name flags &rest more) arguments
    (let ((opener (watch-opener watch)))
      (and opener
           (stringp name)
           (typep flags '(unsigned-byte 31))
           (not (writing-flags-p flags))
           (null (rest more))
           ;; Another thread may change the text.
           (let* ((name (replace (make-string (length name)) name)) (octets (straight-octets name)))
             (and octets
                  (null (effect-of-reading consent name))
                  (let ((descriptor (funcall opener octets flags)))
                    (and (not (minusp descriptor)) descriptor))))))))

(defun straight-opener ()
  "A function that opens a file by the octets of its name and by flags, unless there is a link in that
name: its descriptor, or -1. NIL where there is no such way."
  (let ((address (and (member :linux *features*)
                      (or (member :x86-64 *features*) (member :arm64 *features*))
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
  "Whether the process may call whatever the system has: a filter may end one that does otherwise."
  (ignore-errors
   (with-open-file (stream "/proc/self/status")
     (let* ((text (make-string 4000)) (end (read-sequence text stream)))
       (search (format nil "Seccomp:~C0" #\Tab) text :end2 end)))))

;;; What is private

(defun check-private (watch consent opened)
  "Ask when OPENED, a stream or a descriptor, reads a file that may be private. True when it may be
read; NIL and the values to return in its place otherwise, and it is closed."
  (let* ((name (opened-name opened))
         (effect (and name (effect-of-reading consent name)))
         (end (list (or (null effect) (granted-p consent effect)))))
    (or (first end)
        (unwind-protect
             (multiple-value-bind (allowed values) (settle-effect watch consent effect)
               (setf (first end) allowed)
               (values allowed values))
          (unless (first end) (close-opened opened))))))

(defun effect-of-reading (consent name)
  "The effect of reading the file NAME, if that needs consent."
  (flet ((reading (kind)
           (make-effect :kind kind :words (format nil "read ~A" name) :files (list name)
                        :target name :texts (list name)
                        :pathname (ignore-errors (native-pathname-of name)))))
    (cond ((and (prefixed-p "/proc/" name) (search "environ" name)) (reading "read-secret"))
          ((has-needle-p name (consent-private consent)) (reading "read-private")))))

(defun opened-name (opened)
  "The real name of the file that OPENED, a stream or a descriptor, is open on; NIL for no file."
  (let ((descriptor (opened-descriptor opened)))
    (and descriptor
         (or (descriptor-name descriptor)
             (and (streamp opened) (ignore-errors (native-name-of (truename opened))))))))

(defun opened-descriptor (opened)
  (if (integerp opened)
      opened
      (and (typep opened 'file-stream)
           (ignore-errors (directly "SB-SYS" "FD-STREAM-FD" opened)))))

(defun native-name-of (pathname)
  (internal "SB-EXT" "NATIVE-NAMESTRING" pathname))

(defun close-opened (opened)
  (if (integerp opened)
      (internal "SB-UNIX" "UNIX-CLOSE" opened)
      (close opened :abort t)))

(defun has-needle-p (name needles)
  "Whether one of NEEDLES, a table of NEEDLE-TABLE's, is in NAME, in capitals or not. A file without
any is certainly not private."
  (declare (type (simple-vector 128) needles))
  (let ((name (coerce name '(simple-array character (*)))))
    (declare (type (simple-array character (*)) name))
    (loop for start of-type fixnum from 0 below (length name)
            thereis (loop for needle in (svref needles (needle-index (char-downcase (schar name start))))
                            thereis (needle-at-p needle name start)))))

(defun needle-at-p (needle name start)
  (declare (type (simple-array character (*)) needle name) (type fixnum start))
  (and (<= (length needle) (- (length name) start))
       (loop for index of-type fixnum from 0 below (length needle)
             always (char= (schar needle index) (char-downcase (schar name (+ start index)))))))
