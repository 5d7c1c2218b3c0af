;;; agent-q-image-module.el --- The Common Lisp half, sent in modules  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The Common Lisp half is in modules, the folders of image/; image/modules.eld is
;; the table of them, and of what each needs.  A module is sent over a connection
;; when one of its operations is first called there.  Its operations are found in
;; its text, as (define-operation "name" ...).  The user waits for the first of them,
;; so garbage is collected later.  Second Lisps load them from compiled files, if
;; there are any.

;;; Code:

(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-module)
(require 'cl-lib)
(require 'subr-x)

;;;; Modules as they are here

(defun agent-q-image-module--directory ()
  "Return the folder of the Common Lisp half, or signal a `user-error'."
  (let ((directory (expand-file-name "image/" agent-q-module-directory)))
    (unless (file-directory-p directory)
      (user-error "Cannot find the Common Lisp half of agent-q at %s: %s"
                  (abbreviate-file-name directory) (agent-q-module-remedy)))
    directory))

(cl-defstruct (agent-q-image-module--module (:constructor agent-q-image-module--make-module) (:copier nil))
  "A part of the Common Lisp half.
SOURCE is its text without comments, DIGEST the hash of that, NEEDS the
names of the modules to send before it, VERSION what an image knows it by."
  name source digest operations needs version)

(defvar agent-q-image-module--modules nil
  "The modules of the Common Lisp half, once they were read.")

(defun agent-q-image-module--modules ()
  "Return the modules of the Common Lisp half."
  (or agent-q-image-module--modules
      (let ((modules (mapcar #'agent-q-image-module--read-module (agent-q-image-module--table))))
        (setq agent-q-image-module--modules modules)
        (dolist (module modules modules)
          (setf (agent-q-image-module--module-version module)
                (secure-hash 'sha1 (mapconcat #'agent-q-image-module--module-digest
                                              (agent-q-image-module--with-needs module) "\n")))))))

(defun agent-q-image-module--module (name)
  "Return the module NAME."
  (or (cl-find name (agent-q-image-module--modules)
               :key #'agent-q-image-module--module-name :test #'equal)
      (error "The Common Lisp half has no module %s; reinstall agent-q" name)))

(defun agent-q-image-module--table ()
  "Return the table of modules: lists of a name and the names of those it needs."
  (with-temp-buffer
    (insert-file-contents (expand-file-name "modules.eld" (agent-q-image-module--directory)))
    (mapcar (lambda (row) (mapcar #'symbol-name row)) (read (current-buffer)))))

(defun agent-q-image-module--read-module (row)
  "Return the module that ROW of the table is about."
  (with-temp-buffer
    ;; Decoding what is ASCII takes longer than reading it.
    (set-buffer-multibyte nil)
    (pcase-let ((`(,name . ,needs) row))
      (dolist (file (agent-q-image-module--files
                     (expand-file-name name (agent-q-image-module--directory))))
        (goto-char (point-max))
        (insert-file-contents-literally file))
      (goto-char (point-min))
      (flush-lines "^ *;")
      ;; Each byte of it is read a few times on its way; in a string, only after a tilde.
      (while (re-search-forward "^ +" nil t)
        (replace-match ""))
      (agent-q-image-module--make-module
       :name name
       :source (agent-q-image-module--decoded (buffer-string))
       :digest (buffer-hash)
       :operations (agent-q-image-module--matches "^(define-operation \"\\([^\"]+\\)\"")
       :needs (append (agent-q-image-module--needed-by-all name) needs)))))

(defun agent-q-image-module--decoded (bytes)
  "Return the text that BYTES are; nearly always they are ASCII."
  (if (string-match-p "[^[:ascii:]]" bytes)
      (decode-coding-string bytes 'utf-8-unix)
    bytes))

(defun agent-q-image-module--needed-by-all (name)
  "Return the names of the modules that the module NAME needs as all do.
An error of any operation is reported."
  (pcase name
    ("base" nil)
    ("report" '("base"))
    (_ '("base" "report"))))

(defun agent-q-image-module--files (directory)
  "Return the files of the module in DIRECTORY, in their order."
  (let ((first (expand-file-name "package.lisp" directory))
        (files (directory-files directory t "\\`[a-z].*\\.lisp\\'")))
    (if (member first files) (cons first (remove first files)) files)))

(defun agent-q-image-module--matches (regexp)
  "Return what the first group of REGEXP matches in the buffer, in order."
  (goto-char (point-min))
  (let ((matches nil))
    (while (re-search-forward regexp nil t)
      (push (match-string-no-properties 1) matches))
    (nreverse matches)))

(defun agent-q-image-module--with-needs (module)
  "Return MODULE after all that it needs, in the order of sending."
  (let ((modules nil))
    (cl-labels ((add (module)
                  (unless (memq module modules)
                    ;; None needs one below it in the table, so this ends.
                    (dolist (name (agent-q-image-module--module-needs module))
                      (add (agent-q-image-module--module name)))
                    (push module modules))))
      (add module))
    (nreverse modules)))

(defvar agent-q-image-module--needed (make-hash-table :test #'equal)
  "By operation, the modules that it needs, as each call asks for them.")

(defun agent-q-image-module--modules-for (operation)
  "Return the modules that OPERATION needs in an image, in the order of sending.
For an operation of no module, that is the base."
  (or (gethash operation agent-q-image-module--needed)
      (puthash operation
               (agent-q-image-module--with-needs
                (or (cl-find-if (lambda (module)
                                  (member operation (agent-q-image-module--module-operations module)))
                                (agent-q-image-module--modules))
                    (agent-q-image-module--module "base")))
               agent-q-image-module--needed)))

;;;; Modules as they are in an image

;; A connection's process has the property `agent-q-image-modules': by name of
;; the module an `agent-q-image-module-shipping' while it is on its way, or t once the
;; image has this version of it; and `agent-q-image-greeting', a list whose first
;; element has the versions that the image had of each module when it was asked.

(defconst agent-q-image-module-shipping-seconds 25
  "Seconds that an image may take to receive a module.
Implementations that compile through C need some of it.")

(cl-defstruct (agent-q-image-module-shipping
               (:constructor agent-q-image-module--make-shipping) (:copier nil))
  "MODULES on their way to an image, and the functions WAITING for them."
  modules connection waiting continuation timer)

(defun agent-q-image-module--there (process module)
  "Return what is known of MODULE behind PROCESS."
  (alist-get (agent-q-image-module--module-name module)
             (process-get process 'agent-q-image-modules) nil nil #'equal))

(defun agent-q-image-module--set-there (process module state)
  "Note that MODULE behind PROCESS is in STATE."
  (let ((modules (process-get process 'agent-q-image-modules)))
    (setf (alist-get (agent-q-image-module--module-name module) modules nil t #'equal) state)
    (process-put process 'agent-q-image-modules modules)))

(defun agent-q-image-module-shippings (process)
  "Return what is on its way over PROCESS, shippings."
  (delete-dups
   (cl-remove-if-not #'agent-q-image-module-shipping-p
                     (mapcar #'cdr (process-get process 'agent-q-image-modules)))))

(defun agent-q-image-module-forget (process)
  "Assume no longer that the image behind PROCESS has any module.
What is on its way already is left alone."
  (process-put process 'agent-q-image-greeting nil)
  (process-put process 'agent-q-image-modules
               (cl-remove t (process-get process 'agent-q-image-modules) :key #'cdr)))

(defun agent-q-image-module-abandon (process)
  "Forget all about the image behind PROCESS, which is closed.
Nothing that waits for a module is called."
  (mapc #'agent-q-image-module--stop-waiting (agent-q-image-module-shippings process))
  (process-put process 'agent-q-image-greeting nil)
  (process-put process 'agent-q-image-modules nil))

(defun agent-q-image-module--stop-waiting (shipping)
  "Let SHIPPING have no end in time any more."
  (when (timerp (agent-q-image-module-shipping-timer shipping))
    (cancel-timer (agent-q-image-module-shipping-timer shipping))))

(defun agent-q-image-module--collect-later ()
  "Put off garbage collection for a moment.
Reading modules makes some, and clients copy what they send several times.
The first call would wait for the collections, each of which takes longer
than the image's own work."
  (agent-q-events-garbage-keep 'modules)
  (run-with-timer 0.3 nil #'agent-q-events-garbage-let-go 'modules))

(defun agent-q-image-module-provide (connection operation receiver)
  "Send over CONNECTION what OPERATION needs and is not there, then call RECEIVER.
Its arguments are a status and a payload, nil when all is there."
  (condition-case err
      (progn
        (unless (agent-q-image-module--all-there-p connection operation)
          (agent-q-image-module--collect-later))
        (agent-q-image-module--provide-all connection (agent-q-image-module--modules-for operation)
                                           receiver))
    (error (funcall receiver "signalled" (error-message-string err)))))

(defun agent-q-image-module--all-there-p (connection operation)
  "Whether the modules of OPERATION are read and behind CONNECTION."
  (let ((modules (gethash operation agent-q-image-module--needed))
        (process (agent-q-connection-process connection)))
    (and modules
         (cl-every (lambda (module) (eq t (agent-q-image-module--there process module)))
                   modules))))

(defun agent-q-image-module--provide-all (connection modules receiver)
  "Send over CONNECTION those of MODULES that are not there, then call RECEIVER."
  (let* ((process (agent-q-connection-process connection))
         (missing (cl-remove-if (lambda (module)
                                  (eq t (agent-q-image-module--there process module)))
                                modules))
         (next (lambda (status payload)
                 (if status
                     (funcall receiver status payload)
                   (agent-q-image-module--provide-all connection modules receiver))))
         (shipping (cl-some (lambda (module) (agent-q-image-module--there process module))
                            missing)))
    (cond ((null missing) (funcall receiver nil nil))
          ;; What is on its way for another call may be needed by the rest.
          (shipping (push next (agent-q-image-module-shipping-waiting shipping)))
          (t (agent-q-image-module--ship connection missing next)))))

(defun agent-q-image-module--ship (connection modules receiver)
  "Send MODULES over CONNECTION, then call RECEIVER with a status and a payload."
  (let ((shipping (agent-q-image-module--make-shipping
                   :modules modules :connection connection :waiting (list receiver))))
    (dolist (module modules)
      (agent-q-image-module--set-there (agent-q-connection-process connection)
                                       module shipping))
    (setf (agent-q-image-module-shipping-timer shipping)
          (run-at-time (* agent-q-image-module-shipping-seconds (length modules)) nil
                       #'agent-q-image-module--shipped shipping "unresponsive" ""))
    (condition-case err
        (agent-q-image-module--greet shipping)
      (error (agent-q-image-module--shipped shipping "signalled" (error-message-string err))))))

(defun agent-q-image-module--greet (shipping)
  "Ask the image of SHIPPING what it has; then send what it lacks.
It is asked once for all modules, or each time it can load some of them."
  (let* ((process (agent-q-connection-process
                   (agent-q-image-module-shipping-connection shipping)))
         (greeting (process-get process 'agent-q-image-greeting))
         (files (agent-q-image-module--compiled-files shipping)))
    (if (and greeting (null files))
        (agent-q-image-module--ship-unless-there shipping (car greeting))
      (agent-q-image-module--ship-form
       shipping
       `(cl:progn
         ;; One that can't be loaded notes no version, so its text is sent.
         ,@(and files
                (list (agent-q-image-module--quiet-form
                       `(cl:ignore-errors (cl:mapc (cl:function cl:load) '(,@files))))))
         (cl:let ((cl:symbol (cl:and (cl:find-package "AGENT-Q-IMAGE")
                                     (cl:find-symbol "*VERSIONS*" "AGENT-Q-IMAGE"))))
                 (cl:if (cl:and cl:symbol (cl:boundp cl:symbol))
                        (cl:symbol-value cl:symbol))))
       (lambda (versions)
         (process-put process 'agent-q-image-greeting (list versions))
         (agent-q-image-module--ship-unless-there shipping versions))))))

(defun agent-q-image-module--ship-unless-there (shipping versions)
  "Send the modules of SHIPPING but those of VERSIONS, which the image has.
They go in one message: each takes longer to come and go than to be read."
  (let ((client (agent-q-connection-client-get (agent-q-image-module-shipping-connection shipping) :wire))
        (lacking (cl-remove-if
                  (lambda (module)
                    (equal (cdr (assoc (agent-q-image-module--module-name module) versions))
                           (agent-q-image-module--module-version module)))
                  (agent-q-image-module-shipping-modules shipping))))
    (if (null lacking)
        (agent-q-image-module--shipped shipping nil nil)
      (process-put (agent-q-connection-process (agent-q-image-module-shipping-connection shipping))
                   'agent-q-image-sent t)
      (agent-q-image-module--ship-form
       shipping
       `(cl:progn ,@(mapcar (lambda (module) (agent-q-image-module-shipping-form module client))
                            lacking))
       (lambda (_) (agent-q-image-module--shipped shipping nil nil))))))

(defun agent-q-image-module--ship-form (shipping form receiver)
  "Evaluate FORM in the image for SHIPPING, then call RECEIVER with its value."
  (let ((continuation
         (lambda (result)
           (pcase result
             (`(:ok ,value) (funcall receiver value))
             (`(:abort . ,rest)
              (agent-q-image-module--shipped
               shipping "aborted"
               (format "The image rejected agent-q's Common Lisp half: %s"
                       (car rest))))))))
    (setf (agent-q-image-module-shipping-continuation shipping) continuation)
    (agent-q-connection-ask (agent-q-image-module-shipping-connection shipping)
                            :rex form t continuation)))

(defun agent-q-image-module-shipping-form (module client)
  "Return the form to make MODULE part of an image that CLIENT is connected to."
  (let ((name (agent-q-image-module--module-name module))
        (version (agent-q-image-module--module-version module))
        (source (agent-q-image-module--module-source module)))
    (if (equal name "base")
        (agent-q-image-module--base-form client version source)
      ;; A call is not compiled to be evaluated, as other forms are.
      `(cl:funcall (cl:find-symbol "RECEIVE" "AGENT-Q-IMAGE")
                   ,client ,name ,version ,source))))

(defun agent-q-image-module--base-form (client version source)
  "Return the form to make SOURCE, the base called VERSION, part of CLIENT's image.
It does what RECEIVE in arrival.lisp does for the other modules.  The
variables are symbols of Common Lisp's, to intern none in CL-USER."
  ;; SBCL's interpreter takes a fiftieth of its compiler's time; see arrival.lisp.
  `(cl:progv (cl:if (cl:find-package "SB-EVAL")
                    (cl:list (cl:find-symbol "*EVALUATOR-MODE*" "SB-EXT")))
       '(:interpret)
     (cl:eval
      '(cl:progn
         ,(agent-q-image-module--quiet-form
           `(cl:with-input-from-string (cl:stream ,source)
              (cl:loop :for cl:list := (cl:read cl:stream cl:nil cl:stream)
                       :until (cl:eq cl:list cl:stream)
                       :do (cl:eval cl:list))))
         (cl:funcall (cl:find-symbol "ARRIVED" "AGENT-Q-IMAGE")
                     ,client "base" ,version)))))

(defun agent-q-image-module--quiet-form (form)
  "Return FORM, for reading modules, as one that is quiet."
  `(cl:let* ((cl:*package* (cl:find-package "COMMON-LISP-USER"))
             (cl:*readtable* (cl:copy-readtable cl:nil))
             (cl:*read-base* 10)
             (cl:stream (cl:make-broadcast-stream))
             (cl:*standard-output* cl:stream)
             (cl:*error-output* cl:stream)
             (cl:*trace-output* cl:stream))
     (cl:handler-bind ((cl:warning (cl:function cl:muffle-warning)))
       (cl:with-compilation-unit () ,form))))

(defun agent-q-image-module--shipped (shipping status payload)
  "Call what waited for SHIPPING, with STATUS and PAYLOAD, nil when it is there."
  (let* ((process (agent-q-connection-process
                   (agent-q-image-module-shipping-connection shipping)))
         ;; An answer can come after the time was up.
         (modules (cl-remove-if-not
                   (lambda (module) (eq shipping (agent-q-image-module--there process module)))
                   (agent-q-image-module-shipping-modules shipping))))
    (when modules
      (agent-q-image-module--stop-waiting shipping)
      (dolist (module modules)
        (agent-q-image-module--set-there process module (null status)))
      (dolist (receiver (reverse (agent-q-image-module-shipping-waiting shipping)))
        (funcall receiver status payload)))))

;;;; Modules as compiled files

;; A second Lisp does little else than its work, so compiling what arrives there as text would take
;; most of its time.  SBCL loads compiled files instead: a folder for each version of SBCL and of all
;; modules, which a second Lisp's process has as property `agent-q-image-compiled'.  The first second
;; Lisp still gets the text, as its property `agent-q-image-sent' tells; when it ends, another one
;; compiles the modules.  Other implementations don't compile what arrives, or take minutes for it.

(defvar agent-q-image-module--compiled nil
  "The folders that this Emacs has had filled, or tried to.
Where they can't be loaded, doing that again would give the same.")

(defun agent-q-image-module-use-compiled (connection cache)
  "Let the image behind CONNECTION load modules that are compiled in CACHE."
  (let ((implementation (agent-q-connection-ask connection :implementation)))
    (when (and (string-prefix-p "SBCL " implementation)
               (member "sb-thread" (agent-q-connection-features connection)))
      (process-put (agent-q-connection-process connection) 'agent-q-image-compiled
                   ;; Not where the image's watch lets ASDF write.
                   (expand-file-name
                    (format "agent-q/%s/%s"
                            (replace-regexp-in-string "[^[:alnum:].+-]" "-" implementation)
                            (agent-q-image-module--version-of-all))
                    cache)))))

(defun agent-q-image-module--version-of-all ()
  "Return a name for this version of all modules."
  (secure-hash 'sha1 (mapconcat #'agent-q-image-module--module-version
                                (agent-q-image-module--modules) "\n")))

(defun agent-q-image-module--folder (connection)
  "Return the folder for the image behind CONNECTION; it may be nil, or missing."
  (process-get (agent-q-connection-process connection) 'agent-q-image-compiled))

(defun agent-q-image-module--compiled-files (shipping)
  "Return the files with what is on its way by SHIPPING, compiled for its image."
  (let ((folder (agent-q-image-module--folder (agent-q-image-module-shipping-connection shipping))))
    (and folder
         (file-directory-p folder)
         (mapcar (lambda (module)
                   (expand-file-name (concat (agent-q-image-module--module-name module) ".fasl")
                                     folder))
                 (agent-q-image-module-shipping-modules shipping)))))

(defun agent-q-image-module-claim-compiling (connection)
  "Return non-nil if the modules should be compiled for images like CONNECTION's.
It was sent text, as there were no files.  That is asked once for each version."
  (let ((folder (agent-q-image-module--folder connection)))
    (and folder
         (process-get (agent-q-connection-process connection) 'agent-q-image-sent)
         (not (member folder agent-q-image-module--compiled))
         (push folder agent-q-image-module--compiled))))

(defun agent-q-image-module-compile (connection function)
  "Have the image behind CONNECTION compile all modules.
Call FUNCTION when it isn't needed any more."
  (let* ((folder (agent-q-image-module--folder connection))
         (versions (file-name-directory folder))
         (new (progn (make-directory versions t)
                     (make-temp-file (expand-file-name "new-" versions) t))))
    (agent-q-connection-ask
     connection :rex (agent-q-image-module--compiling-form new) t
     (lambda (result)
       (unwind-protect
           ;; Another Emacs may have put its own there, and deleted ours.
           (when (file-directory-p new)
             (if (equal result '(:ok t))
                 (agent-q-image-module--put-compiled new folder)
               (delete-directory new t)))
         (funcall function))))))

(defun agent-q-image-module--put-compiled (new folder)
  "Make NEW, in which all is compiled, FOLDER; delete the other versions beside it."
  (dolist (other (directory-files (file-name-directory folder) t
                                  directory-files-no-dot-files-regexp))
    (unless (equal other new)
      (delete-directory other t)))
  (mapc #'delete-file (directory-files new t "\\.lisp\\'"))
  (rename-file new folder))

(defun agent-q-image-module--compiling-form (folder)
  "Write the texts of all modules into FOLDER; return a form to compile them.
Its value is true if that was done."
  (let ((files (mapcar (lambda (module) (agent-q-image-module--write module folder))
                       (agent-q-image-module--modules)))
        (encoding :utf-8))
    (agent-q-image-module--quiet-form
     `(cl:let ((cl:*compile-verbose* cl:nil) (cl:*compile-print* cl:nil))
        (cl:every (cl:lambda (cl:pathname)
                    ;; Its macros need its functions.
                    (cl:progv (cl:list (cl:find-symbol "*EVALUATOR-MODE*" "SB-EXT")) '(:interpret)
                      (cl:load cl:pathname :external-format ,encoding))
                    (cl:compile-file cl:pathname :external-format ,encoding))
                  '(,@files))))))

(defun agent-q-image-module--write (module folder)
  "Write the text of MODULE into FOLDER, with its version at the end.
Return the name of the file."
  (let ((file (expand-file-name (concat (agent-q-image-module--module-name module) ".lisp") folder))
        (coding-system-for-write 'utf-8-unix))
    (write-region (format "%s\n(agent-q-image::note-version %S %S)\n"
                          (agent-q-image-module--module-source module)
                          (agent-q-image-module--module-name module)
                          (agent-q-image-module--module-version module))
                  nil file nil 'silent)
    file))

(provide 'agent-q-image-module)
;;; agent-q-image-module.el ends here
