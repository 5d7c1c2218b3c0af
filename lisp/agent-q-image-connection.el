;;; agent-q-image-connection.el --- Connections to Lisp images  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The connections to Lisp images that the user has, be they SLY's or SLIME's,
;; under one set of functions.

;;; Code:

(require 'cl-lib)
(require 'agent-q-sly)
(require 'agent-q-slime)

(defconst agent-q-image--clients
  `((sly . ,agent-q-sly-client)
    (slime . ,agent-q-slime-client))
  "The Lisp clients that can carry calls, the preferred one first.")

(cl-defstruct (agent-q-image-connection
               (:constructor agent-q-image--make-connection (client process))
               (:copier nil))
  "A client's connection to a Lisp image; compare them with `equal'."
  client process)

(defun agent-q-image--client (connection key)
  "Return what the client of CONNECTION has for KEY."
  (plist-get (alist-get (agent-q-image-connection-client connection)
                        agent-q-image--clients)
             key))

(defun agent-q-image--ask (connection key &rest arguments)
  "Call the function KEY of CONNECTION's client with ARGUMENTS.
Its first argument is the connection's process."
  (apply (agent-q-image--client connection key)
         (agent-q-image-connection-process connection)
         arguments))

(defun agent-q-image-connections ()
  "Return the open connections to Lisp images, the user's current one first."
  (cl-loop for (client . functions) in agent-q-image--clients
           nconc (mapcar (lambda (process)
                           (agent-q-image--make-connection client process))
                         (funcall (plist-get functions :connections)))))

(defun agent-q-image-default-connection ()
  "Return the connection that the user works with now, or nil."
  (car (agent-q-image-connections)))

(defun agent-q-image-live-p (connection)
  "Return non-nil when CONNECTION is a connection that is open."
  (and connection
       (process-live-p (agent-q-image-connection-process connection))))

(defun agent-q-image-name (connection)
  "Return the name that CONNECTION has in its client."
  (agent-q-image--ask connection :connection-name))

(defun agent-q-image-label (connection)
  "Return the name of CONNECTION, which no other one has.
It has the client in it where another client's has that name too."
  (let* ((name (agent-q-image-name connection))
         (same (cl-remove-if-not (lambda (other) (equal name (agent-q-image-name other)))
                                 (agent-q-image-connections))))
    (if (remove connection same)
        (format "%s through %s" name (agent-q-image--client connection :name))
      name)))

(defun agent-q-image-with-name (connection text)
  "Return TEXT, what the image behind CONNECTION answered, with its name.
A reply has it in front, where the core looks for it; any other text
at its end.  That is done only while there are other connections."
  (cond ((or (null text) (null connection) (null (cdr (agent-q-image-connections))))
         text)
        ((string-prefix-p "(:outcome " text)
         (format "(:image %S %s" (agent-q-image-label connection) (substring text 1)))
        (t (format "%s\n(In image %s.)" text (agent-q-image-label connection)))))

(defun agent-q-image-facts (connection)
  "Return one line on the Lisp image behind CONNECTION."
  (format "%s through %s, package COMMON-LISP-USER%s"
          (agent-q-image--ask connection :implementation)
          (agent-q-image--client connection :name)
          (let ((count (length (agent-q-image-connections))))
            (if (> count 1)
                (format "; it is the image %s, one of the %d that the user has"
                        (agent-q-image-label connection) count)
              ""))))

(provide 'agent-q-image-connection)
;;; agent-q-image-connection.el ends here
