;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Opening files in a call. Private files are asked about by the name of what was opened, not of
;;; what the program asked for: that may change from one moment to the next.

(cl:in-package "AGENT-Q-IMAGE")

;;; OPEN goes through UNIX-OPEN, where the descriptor is checked. Handlers of the program may run
;;; within OPEN, so every file that is opened there is checked.

(defstruct (opening (:type vector) (:copier nil))
  ;; What was in force around OPEN; a function that returns from OPEN with a list of values; and the
  ;; descriptor that needs no check any more.
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
          (case allowed
            ((nil) (values-list values))
            (:again (call-opening watch hold function arguments))
            (t stream))))))

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
            ;; If OPEN is denied a file that it writes, it still has to clean up.
            (and opening (writing-flags-p (second arguments))))
        (values-list opened)
        (multiple-value-bind (allowed values)
            (if opening
                (funcall (watch-call-in watch) (opening-hold opening)
                         (lambda () (check-private watch (first hold) (first opened))))
                (check-private watch (first hold) (first opened)))
          (cond ((eq allowed :again) (call-opening-name watch hold function arguments))
                (allowed (values-list opened))
                (opening (funcall (opening-return opening) values))
                (t (values-list values)))))))

(defun fails-quietly-p (arguments)
  "Whether nothing of the program, such as a handler, can run while the system opens a file by
ARGUMENTS."
  (destructuring-bind (&optional name flags (mode 0) &rest more) arguments
    (and (simple-string-p name)
         (every (lambda (character) (< 0 (char-code character) 128)) name)
         (typep flags '(unsigned-byte 31))
         (typep mode '(unsigned-byte 31))
         (null more))))

(defun open-straight (watch consent arguments)
  "The descriptor of the file that ARGUMENTS of UNIX-OPEN name, opened for reading; NIL if it may be
private, or has to be opened the usual way, which also reports why it can't be."
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
                    (cond ((minusp descriptor) nil)
                          ((not (private-by-another-name-p consent descriptor)) descriptor)
                          (t (close-opened descriptor)
                             nil)))))))))

;;; Private files

(defun check-private (watch consent opened)
  "Ask if OPENED, a stream or a descriptor, reads a file that may be private. Returns true if it may
be read, :AGAIN if it was closed before that was allowed; otherwise closes it and returns NIL and the
values to return in its place."
  (let* ((name (opened-name opened))
         (effect (and name (effect-of-reading consent name (opened-descriptor opened))))
         (end (list (or (null effect) (granted-p consent effect)))))
    (flet ((close-it ()
             (unless (rest end)
               (setf (rest end) '(:closed))
               (close-opened opened))))
      (or (first end)
          (unwind-protect
               (multiple-value-bind (allowed values)
                   ;; Handlers of the program run when a denial is signalled.
                   (settle-effect watch consent effect #'close-it)
                 (setf (first end) allowed)
                 (values (if (and allowed (rest end)) :again allowed) values))
            (unless (first end) (close-it)))))))

(defun secret-device-p (name)
  "Whether the file NAME is the environment or the memory of a process, or of the machine."
  ;; Every file that is opened comes through here.
  (and (> (length name) 4)
       (find (char name 1) "dp")
       (or (and (prefixed-p "/proc/" name)
                (or (search "environ" name) (member (last-part name) '("mem" "kcore") :test #'string=)))
           (member name '("/dev/mem" "/dev/kmem") :test #'string=))))

(defun effect-of-reading (consent name &optional descriptor)
  "The effect of reading the file NAME, open on DESCRIPTOR, if that needs consent."
  (flet ((reading (kind)
           (make-effect :kind kind :words (format nil "read ~A" name) :files (list name)
                        :target name :texts (list name)
                        :pathname (ignore-errors (native-pathname-of name)))))
    (cond ((secret-device-p name) (reading "read-secret"))
          ((has-needle-p name (consent-private consent)) (reading "read-private"))
          ((and descriptor (private-by-another-name-p consent descriptor))
           (let ((effect (reading "read-private")))
             (setf (effect-words effect) (format nil "read ~A, which has other names as well" name))
             effect)))))

(defun opened-name (opened)
  "The real name of the file that OPENED, a stream or a descriptor, is open on; NIL if it is no
file."
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
