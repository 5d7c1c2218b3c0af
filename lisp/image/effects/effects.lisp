;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What a call of one of the implementation's functions is about to do, in words. For each such
;;; function, one here takes its arguments and returns the effect, or NIL if there is none.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (effect (:type vector) (:copier nil))
  kind words
  ;; Names of files; what else a rule compares; names that the text of a consent may use for it.
  (files '()) target (texts '())
  ;; The pathname for the condition of a denial; and details beyond that file: for definitions, a
  ;; list of the packages of what they name.
  pathname detail
  ;; What else Emacs is told.
  (more '()))

(defun effect-identity (effect)
  "A text that identifies the effect among those of its kind."
  (or (and (equal (effect-kind effect) "run-program") (first (effect-texts effect)))
      (effect-words effect)))

(defun same-effect-p (one other)
  (flet ((parts (effect)
           (and effect (list (effect-identity effect) (effect-files effect) (effect-more effect)))))
    (equal (parts one) (parts other))))

(defun file-effect (kind words designator &key link more)
  "An effect on the file DESIGNATOR, and on the file MORE; their names fill in WORDS, a format
control."
  (let ((name (real-name designator :link link)))
    (make-effect :kind kind :words (format nil words name more)
                 :files (if more (list name more) (list name)) :target name
                 :texts (list name (printed designator :limit 1000 :writer #'princ))
                 :pathname (ignore-errors (pathname designator)))))

(defun native-effect (kind words name &key link more)
  "The same for NAME, in native syntax."
  (let ((real (real-native-name name :link link)))
    (make-effect :kind kind :words (format nil words real more)
                 :files (if more (list real more) (list real)) :target real
                 :texts (list real name)
                 :pathname (ignore-errors (native-pathname-of real)))))

(defun native-pathname-of (name)
  (internal "SB-EXT" "PARSE-NATIVE-NAMESTRING" name))

;;; Files

(defun effect-of-open (arguments)
  (destructuring-bind (name &key (direction :input) (if-exists nil) (if-does-not-exist nil given)
                       &allow-other-keys)
      arguments
    (cond ((and (member direction '(:output :io)) (equal "/dev/null" (native-text name)))
           nil)
          ((member direction '(:output :io))
           (file-effect "write-file" (if (eq if-exists :append) "append to ~A" "write ~A") name))
          ((and given (eq if-does-not-exist :create))
           (file-effect "write-file" "create ~A" name)))))

(defun effect-of-log (arguments)
  (and (first arguments)
       (file-effect "write-file" "make the garbage collector write ~A" (first arguments))))

(defun effect-of-delete-directory (arguments)
  (destructuring-bind (name &key recursive) arguments
    (let ((effect (file-effect "delete-file"
                               (if recursive "delete the directory ~A and all that is in it"
                                   "delete the directory ~A")
                               (directory-as-file name) :link t)))
      (when recursive (setf (effect-detail effect) "recursive"))
      effect)))

(defun directory-as-file (designator)
  "The name of the directory DESIGNATOR without its final slash, if possible."
  (let ((native (native-text designator)))
    (or (and native (native-pathname-of (string-right-trim "/" native)))
        designator)))

(defun effect-of-rename-file (arguments)
  (destructuring-bind (name new &rest rest) arguments
    (declare (ignore rest))
    (file-effect "rename-file" "rename ~A to ~A" name :link t
                 :more (real-name (or (ignore-errors (merge-pathnames new name)) new) :link t))))

(defun effect-of-load (arguments)
  (let ((what (first arguments)))
    (cond ((and (streamp what) (not (typep what 'file-stream)))
           (make-effect :kind "load-file" :words "load code from a stream" :texts '()))
          (t (file-effect "load-file" "load ~A" (loaded-name what))))))

(defun loaded-name (designator)
  "The name of the file that LOAD chooses for DESIGNATOR, which may lack a type."
  (or (and (not (streamp designator))
           (ignore-errors
            (let ((name (merge-pathnames designator)))
              (and (null (pathname-type name))
                   (null (probe-file name))
                   (or (probe-file (make-pathname :type "fasl" :defaults name))
                       (probe-file (make-pathname :type "lisp" :defaults name)))))))
      designator))

;;; Files by native names

(defmacro writing-flags ()
  "The bits of the system's open flags that allow more than reading."
  (reduce #'logior
          (loop for name in '("O_WRONLY" "O_RDWR" "O_CREAT" "O_TRUNC")
                for symbol = (and (find-package "SB-UNIX") (find-symbol name "SB-UNIX"))
                when (and symbol (boundp symbol))
                  collect (symbol-value symbol))))

(defun writing-flags-p (flags)
  (and (integerp flags) (logtest flags (writing-flags))))

(defun device-name-p (name)
  (let ((name (real-native-name name)))
    (member name '("/dev/null" "/dev/zero" "/dev/full" "/dev/random" "/dev/urandom" "/dev/tty" "/dev/ptmx")
            :test #'string=)))

(defun effect-of-unix-open (arguments)
  (destructuring-bind (name flags &rest rest) arguments
    (declare (ignore rest))
    (when (and (writing-flags-p flags) (not (device-name-p (text-of-name name))))
      (native-effect "write-file" "write ~A" (text-of-name name)))))

(defun text-of-name (name)
  "NAME, a string or a pathname, as text."
  (if (pathnamep name) (native-text name) (princ-to-string name)))

(defun effect-of-unlink (arguments)
  (native-effect "delete-file" "delete ~A" (text-of-name (first arguments)) :link t))

(defun effect-of-rmdir (arguments)
  (native-effect "delete-file" "delete the directory ~A" (text-of-name (first arguments)) :link t))

(defun effect-of-unix-rename (arguments)
  (native-effect "rename-file" "rename ~A to ~A" (text-of-name (first arguments)) :link t
                 :more (real-native-name (text-of-name (second arguments)) :link t)))

(defun effect-of-mkdir (arguments)
  (native-effect "make-directory" "make the directory ~A"
                 (string-right-trim "/" (text-of-name (first arguments))) :link t))

(defun name-or-descriptor (what)
  "The name of WHAT, a name or a descriptor."
  (cond ((or (stringp what) (pathnamep what)) (text-of-name what))
        ((and (integerp what) (descriptor-name what)))
        (t (princ-to-string what))))

(defun effect-of-change (arguments)
  "The effect of changing a file's mode, owner or dates."
  (native-effect "change-attributes" "change the attributes of ~A"
                 (name-or-descriptor (first arguments))))

(defun effect-of-writing-name (arguments)
  "The effect of creating or truncating a file by its name or descriptor."
  (native-effect "write-file" "write ~A" (name-or-descriptor (first arguments))))

(defun effect-of-linking (arguments)
  (native-effect "write-file" "make the link ~A to ~A" (text-of-name (second arguments)) :link t
                 :more (text-of-name (first arguments))))

;;; Processes

(defun effect-of-fork (arguments)
  (declare (ignore arguments))
  (make-effect :kind "run-program" :words "make a copy of this process" :target "fork"))

(defun effect-of-process-kill (arguments)
  (effect-of-kill (list (internal "SB-EXT" "PROCESS-PID" (first arguments)) (second arguments))))

(defun effect-of-kill (arguments)
  (make-effect :kind "stop-thread" :target (printed (first arguments) :limit 100)
               :words (format nil "send the signal ~A to the process ~A"
                              (printed (second arguments) :limit 20)
                              (printed (first arguments) :limit 100))))

;;; The network

(defun address-text (address)
  "The network ADDRESS as people write it: numbers with dots or a name, with its port."
  (let ((host (first address)) (port (second address)))
    (format nil "~A~@[:~A~]"
            (if (typep host '(and vector (not string)))
                (format nil (if (= (length host) 4) "~{~D~^.~}" "~{~X~^:~}") (coerce host 'list))
                (printed host :limit 200 :writer #'princ))
            (and port (printed port :limit 20 :writer #'princ)))))

(defun socket-effect (kind words arguments)
  (let ((text (address-text (rest arguments))))
    (make-effect :kind kind :words (format nil words text) :target text :texts (list text)
                 :detail (address-text (list (second arguments))))))

(defun effect-of-connect (arguments) (socket-effect "connect" "connect to ~A" arguments))
(defun effect-of-bind (arguments) (socket-effect "listen" "take the address ~A" arguments))

(defun effect-of-listen (arguments)
  (let ((text (guarded (lambda ()
                         (address-text (multiple-value-list
                                        (internal "SB-BSD-SOCKETS" "SOCKET-NAME" (first arguments)))))
                       (constantly "a socket"))))
    (make-effect :kind "listen" :words (format nil "listen at ~A" text) :target text)))

(defun effect-of-send (arguments)
  (destructuring-bind (socket buffer length &key address &allow-other-keys) arguments
    (declare (ignore buffer length))
    (if address
        (let ((text (address-text address)))
          (make-effect :kind "connect" :words (format nil "send to ~A" text) :target text))
        (effect-on-client (socket-descriptor socket) "write to"))))

(defun effect-of-receiving (arguments)
  (effect-on-client (socket-descriptor (first arguments)) "read from"))

(defun effect-of-reading-descriptor (arguments)
  "The effect of reading what Emacs has sent to the client."
  (effect-on-client (first arguments) "read from"))

(defun effect-of-copying-descriptor (arguments)
  (effect-on-client (first arguments) "copy"))

(defun effect-of-device-control (arguments)
  "The effect of ioctl on a terminal or a file, except for asking about sizes and the like."
  (destructuring-bind (descriptor command &rest rest) arguments
    (declare (ignore rest))
    ;; TCGETS, TIOCGPGRP, TIOCOUTQ, TIOCGWINSZ, FIONREAD
    (unless (member command '(#x5401 #x540F #x5411 #x5413 #x541B))
      (effect-of-taking-over (format nil "what ~A does, by ioctl ~X"
                                     (or (and (integerp descriptor) (descriptor-name descriptor)) "a descriptor")
                                     command)))))

(defun effect-of-looking-up (arguments)
  "The effect of looking up a host name or address on other machines. A name is looked up in order
to connect to it, so the answer counts for both."
  (let ((text (address-text (list (first arguments)))))
    (unless (or (string-equal text "localhost")
                (every (lambda (it) (or (digit-char-p it) (char= it #\.))) text))
      (make-effect :kind "connect" :target text :texts (list text)
                   :words (format nil "look up ~A in the network and connect to it" text)))))

(defun effect-of-looking-up-address (arguments)
  "The effect of asking other machines for the name of an address."
  (let ((address (first arguments)))
    (unless (and (typep address 'vector) (member (length address) '(4 16)) (own-address-p address))
      (let ((text (address-text arguments)))
        (make-effect :kind "connect" :target text :texts (list text)
                     :words (format nil "look up ~A in the network" text))))))

(defun own-address-p (address)
  "Whether ADDRESS, numbers, belongs to this machine or its local network link."
  (or (every #'zerop (subseq address 0 (1- (length address))))
      (case (length address)
        (4 (or (member (elt address 0) '(0 127))
               (and (= (elt address 0) 169) (= (elt address 1) 254))))
        (16 (or (and (= (elt address 0) 254) (<= 128 (elt address 1) 191))
                ;; An IPv4 address in IPv6 form.
                (and (every #'zerop (subseq address 0 10))
                     (own-address-p (subseq address 12))))))))

;;; The process and its threads

(defun effect-of-exit (arguments)
  (declare (ignore arguments))
  (make-effect :kind "exit-lisp" :words "end this Lisp"))

(defun effect-of-save (arguments)
  (file-effect "save-image" "end this Lisp and save it as ~A" (first arguments)))

(defun thread-text (thread)
  (printed (or (ignore-errors (internal "SB-THREAD" "THREAD-NAME" thread)) thread)
           :limit 100 :writer #'princ))

(defun effect-of-stopping (arguments)
  (make-effect :kind "stop-thread" :target (thread-text (first arguments))
               :words (format nil "end the thread ~A" (thread-text (first arguments)))))

(defun effect-of-interrupting (arguments)
  (make-effect :kind "stop-thread" :target (thread-text (first arguments))
               :words (format nil "run code in the thread ~A" (thread-text (first arguments)))))

(defun effect-of-binding-elsewhere (arguments)
  "The effect of setting a variable's value in another thread."
  (destructuring-bind (symbol thread value) arguments
    (declare (ignore value))
    (unless (eq thread (backend "CURRENT-THREAD"))
      (effect-of-taking-over (format nil "the value of ~A in the thread ~A"
                                     (symbol-text symbol) (thread-text thread))))))

(defun effect-of-setting-elsewhere (arguments)
  (destructuring-bind (value symbol thread &rest more) arguments
    (declare (ignore more))
    (effect-of-binding-elsewhere (list symbol thread value))))

(defun effect-of-schedule (arguments)
  (let ((thread (internal "SB-IMPL" "%TIMER-THREAD" (first arguments))))
    (unless (member thread (list nil t (backend "CURRENT-THREAD")))
      (make-effect :kind "take-over" :target (thread-text thread)
                   :words (format nil "run code in the thread ~A by a timer"
                                  (thread-text thread))))))

(defun effect-of-taking-over (what)
  (make-effect :kind "take-over" :target what :texts (list what) :words (format nil "change ~A" what)))

(defun effect-of-signal (arguments)
  (effect-of-taking-over (format nil "what the signal ~A does"
                                 (printed (first arguments) :limit 20))))

;;; Descriptors

(defun effect-of-descriptor-stream (arguments)
  "The effect of making a stream that writes to a descriptor of unknown origin."
  (destructuring-bind (descriptor &key output delete-original auto-close &allow-other-keys) arguments
    (cond ((or output delete-original)
           (let ((name (or (descriptor-name descriptor) (format nil "the descriptor ~A" descriptor))))
             (make-effect :kind "write-file" :target name :words (format nil "write ~A" name))))
          ;; It is closed once the stream is garbage.
          (auto-close (effect-of-closing-descriptor arguments)))))

(defun effect-of-descriptors (arguments)
  (make-effect :kind "take-over" :target "descriptor"
               :words (format nil "make the descriptor ~A what ~A is"
                              (printed (second arguments) :limit 20)
                              (printed (first arguments) :limit 20))))

(defun effect-of-controlling (arguments)
  "The effect of having the system send signals for a descriptor, or of changing the client's."
  (destructuring-bind (descriptor command &optional value) arguments
    (let ((descriptor (if (integerp descriptor) descriptor
                          (ignore-errors (internal "SB-SYS" "FD-STREAM-FD" descriptor)))))
      ;; F_DUPFD to F_SETLKW, those of open file descriptions, and F_DUPFD_CLOEXEC.
      (when (or (not (member command '(0 1 2 3 4 5 6 7 36 37 38 1030)))
                ;; F_DUPFD
                (and (member command '(0 1030)) (client-descriptor-p descriptor))
                (and (eql command 4)
                     (or (and (integerp value) (logtest value #o20000))
                         (client-descriptor-p descriptor))))
        (effect-of-taking-over (format nil "what the system does about the descriptor ~A"
                                       descriptor))))))

(defun effect-of-system-log (arguments)
  (make-effect :kind "write-file" :target "syslog"
               :words (format nil "write to the system's log: ~A"
                              (printed (rest arguments) :limit 300))))

;;; The environment

(defun effect-of-environ (arguments)
  (declare (ignore arguments))
  (make-effect :kind "read-secret" :words "read all of the environment" :target "*"))

(defun effect-of-setenv (arguments)
  (let ((name (first-line (printed (first arguments) :limit 200 :writer #'princ) 200)))
    (make-effect :kind "set-environment" :target name :texts (list name)
                 :words (format nil "set the environment variable ~A" name))))

(defun effect-of-chdir (arguments)
  (native-effect "set-environment" "make ~A the working directory of this process"
                 (text-of-name (first arguments))))

(defun effect-of-process (arguments)
  (make-effect :kind "set-environment" :target "process"
               :words (format nil "change what this process may do (~{~A~^ ~})"
                              (loop for it in arguments collect (printed it :limit 40)))))
