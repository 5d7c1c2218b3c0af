;;; agent-q-operations.el --- What tools ask of Emacs Lisp  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Some tools are answered by Emacs: from what it saw, or through the image in
;; ways that need more than one call.  Here such operations are defined and run;
;; agent-q-host.el loads the files that have them.

;;; Code:

(require 'agent-q-events)
(require 'agent-q-image-connection)
(require 'agent-q-json)
(require 'cl-lib)

(cl-defstruct (agent-q-operations-call
               (:constructor agent-q-operations--make-call) (:copier nil))
  "A call of an operation.
REQUEST is the core's number for it.  CONNECTION leads to the image of
the chat, or is nil; OWNER is the buffer of the chat, or nil."
  request connection owner)

(defvar agent-q-operations--table (make-hash-table :test #'equal)
  "The function of each operation.")

(defmacro agent-q-operations-define (name parameters docstring &rest body)
  "Make NAME an operation that tools can ask for.
PARAMETERS is a list of the variable for the call, an
`agent-q-operations-call', and the names of the tool's parameters,
or lists of a variable and such a name.  DOCSTRING says what it does.
The value of BODY is the answer, a string; when it is nil, BODY has
arranged for `agent-q-operations-answer'.  An error in it is the
reason why there is no answer."
  (declare (indent defun) (doc-string 3) (debug (stringp sexp stringp def-body)))
  (let ((function (intern (concat "agent-q-operations--" name)))
        (arguments (make-symbol "arguments")))
    `(progn
       (defun ,function (,(car parameters) ,arguments)
         ,docstring
         (ignore ,(car parameters) ,arguments)
         (let ,(mapcar (lambda (parameter)
                         (pcase-let ((`(,variable ,key)
                                      (if (consp parameter) parameter
                                        (list parameter parameter))))
                           `(,variable (alist-get ',key ,arguments))))
                       (cdr parameters))
           ,@body))
       (puthash ,name #',function agent-q-operations--table))))

(defun agent-q-operations-of-image (call text)
  "Return TEXT, an answer to CALL, with the name of the image that it is about."
  (agent-q-image-with-name (agent-q-operations-call-connection call) text))

(defun agent-q-operations-answer (call status text)
  "End CALL with STATUS and TEXT, as the core takes them."
  (agent-q-events-resolve (agent-q-operations-call-request call) status
                          (and text (substring-no-properties text))))

(defun agent-q-operations-run (event connection owner)
  "Carry out the request in EVENT, soon.
CONNECTION leads to the image of the chat whose buffer is OWNER."
  ;; Events arrive in a process filter, which has to be short and can't be quit.
  (run-at-time 0 nil #'agent-q-operations--perform
               (agent-q-operations--make-call
                :request (plist-get event :request)
                :connection (and (agent-q-image-live-p connection) connection)
                :owner owner)
               (plist-get event :operation)
               (plist-get event :arguments)))

(defun agent-q-operations--perform (call operation arguments)
  "Run OPERATION for CALL with ARGUMENTS, JSON text."
  (let ((ended nil))
    (unwind-protect
        (progn
          (with-local-quit
            (condition-case err
                (let ((answer (agent-q-operations--value call operation arguments)))
                  (when answer
                    (agent-q-operations-answer call "done" answer)))
              (error (agent-q-operations-answer call "signalled"
                                                (error-message-string err))))
            (setq ended t))
          (unless ended
            (setq quit-flag nil
                  ended t)
            (agent-q-operations-answer call "aborted" "The user quit it.")))
      ;; A hook of the user's may throw to code that waits for Emacs's timers.
      (unless ended
        (agent-q-operations-answer call "aborted" "It exited by a throw.")))))

(defun agent-q-operations--value (call operation arguments)
  "Return the value of OPERATION, called for CALL with ARGUMENTS, JSON text."
  (let ((function (gethash operation agent-q-operations--table)))
    (unless function
      (error "Unknown operation %s of this Emacs; reload agent-q" operation))
    (funcall function call (agent-q-json-alist arguments t))))

(provide 'agent-q-operations)
;;; agent-q-operations.el ends here
