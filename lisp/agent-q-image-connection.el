;;; agent-q-image-connection.el --- Connections to Lisp images  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The connections to Lisp images that the user has, be they SLY's or SLIME's,
;; under one set of functions.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'agent-q-sly)
(require 'agent-q-slime)
(require 'agent-q-visible)

(defconst agent-q-image-connection--clients
  `((sly . ,agent-q-sly-client)
    (slime . ,agent-q-slime-client))
  "The Lisp clients that can carry calls, the preferred one first.")

(cl-defstruct (agent-q-image-connection
               (:constructor agent-q-image-connection--make (client process))
               (:copier nil))
  "A client's connection to a Lisp image; compare them with `equal'."
  client process)

(defun agent-q-image-client (connection key)
  "Return what the client of CONNECTION has for KEY."
  (plist-get (alist-get (agent-q-image-connection-client connection)
                        agent-q-image-connection--clients)
             key))

(defun agent-q-image-ask (connection key &rest arguments)
  "Call the function KEY of CONNECTION's client with ARGUMENTS.
Its first argument is the connection's process."
  (apply (agent-q-image-client connection key)
         (agent-q-image-connection-process connection)
         arguments))

(defun agent-q-image-connections ()
  "Return the open connections to Lisp images, the user's current one first."
  (cl-loop for (client . functions) in agent-q-image-connection--clients
           nconc (mapcar (lambda (process)
                           (agent-q-image-connection--make client process))
                         (funcall (plist-get functions :connections)))))

(defun agent-q-image-default-connection ()
  "Return the connection that the user works with now, or nil."
  (cl-loop for (client . functions) in agent-q-image-connection--clients
           for process = (car (funcall (plist-get functions :connections)))
           when process return (agent-q-image-connection--make client process)))

(defun agent-q-image-live-p (connection)
  "Return non-nil when CONNECTION is a connection that is open."
  (and connection
       (process-live-p (agent-q-image-connection-process connection))))

(defun agent-q-image-name (connection)
  "Return the name that CONNECTION has in its client."
  (agent-q-image-ask connection :connection-name))

(defun agent-q-image-repl-package (connection)
  "Return the package that the user's REPL on CONNECTION is in, or nil."
  (agent-q-image-ask connection :repl-package))

(defun agent-q-image-features (connection)
  "Return the names of the features of CONNECTION's image, in lower case.
CONNECTION may be nil."
  (mapcar (lambda (feature)
            (downcase (replace-regexp-in-string "\\`.*:" "" (format "%s" feature))))
          (and connection (agent-q-image-ask connection :features))))

(defun agent-q-image-label (connection)
  "Return the name of CONNECTION, which no other one has, as it is shown.
It has the client in it where another client's has that name too, and stays
within its line, as an image can name itself."
  (let* ((name (agent-q-image-name connection))
         (same (cl-remove-if-not (lambda (other) (equal name (agent-q-image-name other)))
                                 (agent-q-image-connections))))
    (agent-q-visible-line
     (if (remove connection same)
         (format "%s through %s" name (agent-q-image-client connection :name))
       name))))

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
  (format "%s through %s%s"
          (agent-q-image-ask connection :implementation)
          (agent-q-image-client connection :name)
          (let ((count (length (agent-q-image-connections))))
            (if (> count 1)
                (format "; the image %s, one of %d connected"
                        (agent-q-image-label connection) count)
              ""))))

;;;; What the Lisp printed by itself

(defun agent-q-image-silence (connection)
  "Return a description of the image behind CONNECTION, which doesn't answer."
  (concat (if (agent-q-image-ask connection :threads-p)
              ""
            "This Lisp has no threads here: it cannot answer while it is busy.\n")
          (agent-q-image-connection--output-tail connection)))

(defun agent-q-image-connection--output-tail (connection)
  "Return the last lines that the Lisp behind CONNECTION printed by itself."
  (let ((buffer (agent-q-image-ask connection :buffer)))
    (if (buffer-live-p buffer)
        (with-current-buffer buffer
          (save-restriction
            (widen)
            (let ((tail (string-trim
                         (buffer-substring-no-properties
                          (max (point-min) (- (point-max) 600)) (point-max)))))
              (if (string-empty-p tail)
                  ""
                (format "Its last output in %s:\n%s" (buffer-name) tail)))))
      "")))

(defun agent-q-image-crash (connection)
  "Return a description of the Lisp behind CONNECTION if it has crashed, or nil.
SBCL has its low-level debugger then, and the connection stays open."
  (let ((buffer (agent-q-image-ask connection :buffer)))
    (when (and (buffer-live-p buffer)
               (with-current-buffer buffer
                 (save-restriction
                   (widen)
                   (string-match-p "\nldb> *\\'"
                                   (buffer-substring-no-properties
                                    (max (point-min) (- (point-max) 10)) (point-max))))))
      (format "This Lisp has crashed and answers nothing any more: kill %s, and start another with M-x %s.\n%s"
              (buffer-name buffer) (agent-q-image-connection-client connection)
              (agent-q-image-connection--output-tail connection)))))

(defun agent-q-image-last-words (connection)
  "Return the last that the Lisp behind CONNECTION printed before it went."
  (let* ((buffer (agent-q-image-ask connection :buffer))
         (lisp (and (buffer-live-p buffer) (get-buffer-process buffer))))
    ;; What it wrote as it died can still be on its way, behind the end of the connection.
    (when lisp
      (ignore-errors (accept-process-output lisp 0.05 nil t)))
    (agent-q-image-connection--output-tail connection)))

(provide 'agent-q-image-connection)
;;; agent-q-image-connection.el ends here
